// SPDX-License-Identifier: GPL-3.0-or-later
#include "nesting.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// Has an exception, which nobody tells us of, gone through this pending call?
bool was_left(const PendingCall& call, RemoteAddr sp_after_return, CallSite& site) {
    if (!call.function->throws && call.function->origin.empty()) {
        return false; // C: siglongjmp, at most, which is looked at elsewhere
    }
    const UnwoundStack& stack = site.walk(kNestingWalkLimit);
    const auto& frames = stack.frames;
    if (frames.size() < 2) {
        return false;
    }
    if (sp_after_return == call.sp_after_return) { // it has jumped to here, or not
        return frames[1].pc() != call.return_address;
    }
    // Not frames[1]: another call of the same function from the same place, further down.
    const bool is_there = std::any_of(frames.begin() + 2, frames.end(), [&](FrameAddress frame) {
        return frame.pc() == call.return_address;
    });
    return !is_there && stack.end == StackEnd::outermost;
}

} // namespace

bool is_nested(PendingCalls& calls, CodeAddr entry, RemoteAddr sp_after_return, CallSite& site,
               std::vector<PendingCall>* abandoned) {
    for (;;) {
        const Nesting nesting = calls.on_entry(entry, sp_after_return, abandoned);
        if (nesting == Nesting::outermost) {
            return false;
        }
        if (nesting == Nesting::nested) {
            if (!was_left(calls.innermost(), sp_after_return, site)) {
                return true;
            }
            abandoned->push_back(calls.pop());
            continue;
        }
        const UnwoundStack& stack = site.walk(kNestingWalkLimit);
        if (stack.crossed_signal_frame) {
            return false; // the handler's own call, whatever it interrupted
        }
        const CodeAddr returns_to = calls.innermost().return_address;
        const bool still_active =
            std::any_of(stack.frames.begin(), stack.frames.end(),
                        [returns_to](FrameAddress frame) { return frame.pc() == returns_to; });
        if (still_active) {
            calls.handler_gone(); // it has returned; the next look decides
        } else {
            abandoned->push_back(calls.pop()); // it was left by siglongjmp
        }
    }
}

} // namespace memleax
