// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/stack_names.hpp"

#include <algorithm>

namespace memleax {

void StackNames::refresh() {
    // Before the frames: what is loaded when a stack is recorded has been told by then.
    if (auto modules = mailbox_.take()) {
        modules_ = modules->all;
        main_ = modules->main;
        symbolizer_.set_modules(std::move(modules->all), modules->main.get());
        symbolizer_.set_generated_code(std::move(modules->generated));
    }
}

const std::vector<std::shared_ptr<const Module>>& StackNames::modules() {
    refresh();
    return modules_;
}

ModuleDescription StackNames::describe(const Module& module) {
    refresh();
    return module.image == nullptr ? ModuleDescription{module.problem}
                                   : symbolizer_.describe(module);
}

std::optional<Symbolizer::Variable> StackNames::find_variable(RemoteAddr address) {
    refresh();
    return symbolizer_.find_variable(address);
}

StackEnd StackNames::end(StackId id) {
    return tracker_.with([id](Tracker& t) { return t.stacks().end(id); });
}

Backtrace StackNames::resolve(StackId id, std::size_t most) {
    refresh();
    std::vector<FrameAddress> addresses;
    Generation generation = 0;
    tracker_.with([&](Tracker& t) {
        const auto all = t.stacks().frames(id);
        const auto frames = all.first(std::min(most, all.size()));
        addresses.assign(frames.begin(), frames.end());
        generation = t.stacks().generation(id);
    });
    std::vector<ResolvedFrame> frames;
    frames.reserve(addresses.size());
    for (const FrameAddress address : addresses) {
        frames.push_back(symbolizer_.resolve(address, generation));
    }
    return Backtrace(std::move(frames));
}

} // namespace memleax
