// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/module_mailbox.hpp"

#include <utility>

namespace memleax {

void ModuleMailbox::put(const ModuleMap& modules) {
    Modules copies;
    for (const auto& module : modules.all()) {
        auto copy = std::make_shared<const Module>(*module);
        if (module.get() == modules.main()) {
            copies.main = copy;
        }
        copies.all.push_back(std::move(copy));
    }
    const std::lock_guard lock(mutex_);
    modules_ = std::move(copies);
}

std::optional<ModuleMailbox::Modules> ModuleMailbox::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(modules_, std::nullopt);
}

} // namespace memleax
