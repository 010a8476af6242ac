// SPDX-License-Identifier: GPL-3.0-or-later
/// The division of a session into intervals, by the time at which blocks were allocated.
#pragma once

#include "memleax/block_count.hpp"
#include "memleax/types.hpp"

namespace memleax {

/// What one call stack did in one interval.
struct IntervalCount {
    MonotonicNs begin;
    MonotonicNs end;  ///< of the youngest interval: the time of asking
    BlockCount alloc; ///< allocated in the interval
    BlockCount live;  ///< of those, not freed until now
};

} // namespace memleax
