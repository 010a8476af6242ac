// SPDX-License-Identifier: GPL-3.0-or-later
#include "return_watch.hpp"

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"

namespace memleax {

namespace {
/// What was missing (room for slots) may be there later; what is asked for is only a look.
constexpr std::int64_t kTryAgainNs = kNsPerSecond;
} // namespace

std::optional<Unseen> ReturnWatch::watch(Tid tid, CodeAddr return_address) {
    if (Breakpoint* known = breakpoints_.find(return_address)) {
        known->is_return = true;
        if (const auto there = breakpoints_.put_back(*known); !there) {
            return Unseen::no_breakpoint;
        }
        return std::nullopt;
    }
    // Generated code is not patched: it may be moved, with our breakpoint in it, or thrown away and
    // its place be used for other bytes, which we would then "restore".
    const Module* module = modules_.find(return_address);
    if (module == nullptr || !module->is_elf) {
        watches_all_ = false;
        warn_of_generated_code(return_address);
        return Unseen::generated_code;
    }
    const auto refused = try_again_.find(return_address);
    if (refused != try_again_.end() && monotonic_now() < refused->second) {
        return Unseen::no_breakpoint;
    }
    auto inserted = breakpoints_.insert(return_address, tid);
    if (inserted) {
        (*inserted)->is_return = true;
        return std::nullopt;
    }
    watches_all_ = false;
    try_again_[return_address] = MonotonicNs(monotonic_now().value() + kTryAgainNs);
    if (!warned_of_refusal_) {
        warned_of_refusal_ = true;
        log_warning("allocations that return to {:#x} are counted, but not followed, as are those "
                    "of other places where there can be no breakpoint: {}",
                    return_address.value(), inserted.error().message());
    }
    return Unseen::no_breakpoint;
}

void ReturnWatch::warn_of_generated_code(CodeAddr return_address) {
    if (!warned_of_generated_code_) {
        warned_of_generated_code_ = true;
        log_warning("allocations by generated code (the first returns to {:#x}) are counted, but "
                    "not followed: such code gets no breakpoints",
                    return_address.value());
    }
}

void ReturnWatch::reset() {
    try_again_.clear();
    watches_all_ = true;
    warned_of_generated_code_ = warned_of_refusal_ = false;
}

} // namespace memleax
