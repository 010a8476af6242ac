// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/module_mailbox.hpp"

#include <utility>

namespace memleax {

void ModuleMailbox::put(const ModuleMap& modules, GeneratedCode generated) {
    // A process that opens and closes plugins all day has thousands, of which one or two are news.
    const auto& all = modules.all();
    const Module* const main = modules.main();
    std::shared_ptr<const Module> told_main;
    told_.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto& told = told_[i];
        if (told == nullptr || told->unloaded != all[i]->unloaded) {
            told = std::make_shared<const Module>(*all[i]);
        }
        if (all[i].get() == main) {
            told_main = told;
        }
    }
    const std::lock_guard lock(mutex_);
    modules_ = Modules{told_, std::move(told_main), std::move(generated)};
}

std::optional<ModuleMailbox::Modules> ModuleMailbox::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(modules_, std::nullopt);
}

} // namespace memleax
