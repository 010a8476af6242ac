// SPDX-License-Identifier: GPL-3.0-or-later
/// Calls within calls: calloc that calls malloc, an interposer that calls the real function, a
/// signal handler that allocates while malloc is under way.
#pragma once

#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// What an engine tells of a call at its entry.
struct CallEntry {
    CodeAddr function;          ///< the address that was called
    RemoteAddr sp_after_return; ///< the stack pointer that its caller will see after the return
};

/// Where a stack is looked at only if numbers do not tell.
class EntryWalker {
  public:
    virtual ~EntryWalker() = default;
    /// The stack of the call that is being looked at, its own frame first; good until the next
    /// walk.
    virtual const UnwoundStack& walk(unsigned limit) = 0;
};

/// Is this call made by one of `calls`, the same thread's, or is it what one of them ends by
/// jumping to? Those that turn out to have been left, by an exception or longjmp, go to
/// `abandoned`, in the order in which they were left.
[[nodiscard]] bool is_nested(PendingCalls& calls, const CallEntry& entry, EntryWalker& walker,
                             std::vector<PendingCall>* abandoned);

} // namespace memleax
