// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/module_mailbox.hpp"

#include <utility>

namespace memleax {

void ModuleMailbox::put(const ModuleMap& modules, GeneratedCode generated) {
    // A process that opens and closes plugins all day has thousands, of which one or two are news.
    const auto& all = modules.all();
    const Module* const main = modules.main();
    std::shared_ptr<const Module> sent_main;
    sent_.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto& sent = sent_[i];
        if (sent == nullptr || sent->unloaded != all[i]->unloaded) {
            sent = std::make_shared<const Module>(*all[i]);
        }
        if (all[i].get() == main) {
            sent_main = sent;
        }
    }
    const std::lock_guard lock(mutex_);
    modules_ = Modules{sent_, std::move(sent_main), std::move(generated)};
}

std::optional<ModuleMailbox::Modules> ModuleMailbox::take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(modules_, std::nullopt);
}

} // namespace memleax
