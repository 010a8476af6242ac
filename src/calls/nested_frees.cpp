// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/calls/nested_frees.hpp"

#include <algorithm>

#include "memleax/calls/pending_calls.hpp"

namespace memleax {

namespace {

/// Signals that come one within the other, each between a free and the one that it calls.
constexpr std::size_t kMaxInterrupted = 8;

bool is_tail_call_of(const FreeingCall& outer, const FreeingCall& call, AccountQueries& queries) {
    if (call.sp_after_return != outer.sp_after_return || outer.entry == call.entry) {
        return false;
    }
    // A tail call, of what the allocator knows of the block; it returns to where its caller would
    // have. Else another call of the same function's, which matters only if it is a second free.
    return call.caller.value() != 0 && outer.caller.value() != 0
               ? call.caller == outer.caller
               : call.block == outer.block || !queries.wants_free_stack(call.block);
}

/// Is its code on the stack, on this side of any handler?
bool is_on_stack(const FreeingCall& outer, const UnwoundStack& stack) {
    for (std::size_t i = 1; i < stack.frames.size(); ++i) {
        if (!stack.frames[i].is_return_address()) {
            return false; // interrupted by a signal, whose handler frees for itself
        }
        if (outer.code.contains(stack.frames[i].lookup_pc())) {
            return true;
        }
    }
    return false;
}

} // namespace

void NestedFrees::signal_delivered() {
    if (last_) {
        interrupted_.insert(interrupted_.begin(), *last_);
        interrupted_.resize(std::min(interrupted_.size(), kMaxInterrupted));
        last_.reset();
    }
}

bool NestedFrees::is_part(const FreeingCall& call, CallSite& site, AccountQueries& queries) {
    bool may_be_called = false;
    const auto is_continuation = [&](FreeingCall& outer) {
        if (outer.entry == call.entry || call.sp_after_return > outer.sp_after_return) {
            return false;
        }
        if (is_tail_call_of(outer, call, queries)) {
            outer.entry = call.entry; // it has the frame now
            outer.code = call.code;
            return true;
        }
        may_be_called = may_be_called || call.sp_after_return < outer.sp_after_return;
        return false;
    };
    if ((last_ && is_continuation(*last_)) ||
        std::any_of(interrupted_.begin(), interrupted_.end(), is_continuation)) {
        return true;
    }
    if (!may_be_called) {
        return false;
    }
    const UnwoundStack& stack = site.walk(kNestingWalkLimit);
    const auto is_caller = [&](const FreeingCall& outer) {
        return outer.entry != call.entry && call.sp_after_return < outer.sp_after_return &&
               is_on_stack(outer, stack);
    };
    return (last_ && is_caller(*last_)) ||
           std::any_of(interrupted_.begin(), interrupted_.end(), is_caller);
}

} // namespace memleax
