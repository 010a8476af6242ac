// SPDX-License-Identifier: GPL-3.0-or-later
/// Calls within calls: calloc that calls malloc, an interposer that calls the real function, a
/// signal handler that allocates while malloc is under way.
#pragma once

#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/calls/call.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/event_sink.hpp"

namespace memleax {

/// Is this call, of the function at `entry`, made by one of `calls`, the same thread's, or is it
/// what one of them ends by jumping to? Those that turn out to have been left, by an exception or
/// longjmp, go to `abandoned`, in the order in which they were left. The stack is looked at only if
/// numbers do not tell.
[[nodiscard]] bool is_nested(PendingCalls& calls, CodeAddr entry, RemoteAddr sp_after_return,
                             CallSite& site, std::vector<PendingCall>* abandoned);

/// Tells of each call that was left, and forgets it.
template <class Tell> void drain(std::vector<PendingCall>& abandoned, const Tell& tell) {
    for (const PendingCall& call : abandoned) {
        tell(call);
    }
    abandoned.clear();
}

/// Who makes the call; null if its stack is unreadable.
inline CodeAddr caller_of(CallSite& site) {
    const UnwoundStack& stack = site.walk(2);
    return stack.frames.size() > 1 ? stack.frames[1].lookup_pc() : CodeAddr();
}

/// The id of its first `limit` frames.
inline StackId intern_first(StackInterner& stacks, const UnwoundStack& stack, unsigned limit) {
    const bool cut = stack.frames.size() > limit;
    return stacks.intern(std::span(stack.frames).first(cut ? limit : stack.frames.size()),
                         cut ? StackEnd::limit : stack.end);
}

} // namespace memleax
