// SPDX-License-Identifier: GPL-3.0-or-later
/// What a stop costs a thread that is not stopped.
#pragma once

#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// From the best to the worst.
enum class StopCost {
    nothing,
    begins_again, ///< the call that it is asleep in, by our doing
    runs,         ///< nothing, unless it is awake for a moment in a transfer
    limit_anew,   ///< and its time limit begins anew
    may_fail,
    cut_short,
    uninterruptible, ///< it cannot be stopped now
    gone
};

/// As far as can be seen now: by what /proc says of the thread, and by what its system call's
/// arguments are in the memory of its process `pid`.
[[nodiscard]] StopCost stop_cost(Tid pid, Tid tid, const RemoteMemory& memory);

} // namespace memleax
