// SPDX-License-Identifier: GPL-3.0-or-later
#include "stack_recorder.hpp"

namespace memleax {

const UnwoundStack& StackRecorder::to_record(Tid tid, const arch::Registers& regs, At at,
                                             const UnwoundStack& walked) {
    const std::shared_ptr<StackComparison> comparison = comparison_.lock();
    if (choice_ == UnwinderChoice::own && comparison == nullptr) {
        return walked;
    }
    const auto walk_by_libunwind = [&] {
        if (at == At::entry) {
            libunwind().unwind_at_entry(regs, follower_.walk_limit(), &stack_);
        } else {
            libunwind().unwind(regs, follower_.walk_limit(), &stack_);
        }
    };
    if (choice_ == UnwinderChoice::libunwind) {
        walk_by_libunwind();
    }
    const UnwoundStack& recorded = choice_ == UnwinderChoice::libunwind ? stack_ : walked;
    if (comparison != nullptr && follower_.intern(recorded) == comparison->wanted()) {
        if (choice_ == UnwinderChoice::own) {
            walk_by_libunwind();
        }
        comparison->set(
            {.own = follower_.intern(walked), .libunwind = follower_.intern(stack_), .tid = tid});
        comparison_.reset();
    }
    return recorded;
}

LibunwindWalker& StackRecorder::libunwind() {
    if (!libunwind_) {
        libunwind_.emplace(modules_, memory_);
        libunwind_->set_signature_mask(signature_mask_);
    }
    return *libunwind_;
}

void StackRecorder::set_signature_mask(std::uint64_t mask) {
    signature_mask_ = mask;
    if (libunwind_) {
        libunwind_->set_signature_mask(mask);
    }
}

void StackRecorder::modules_changed() {
    if (libunwind_) {
        libunwind_->modules_changed();
    }
}

} // namespace memleax
