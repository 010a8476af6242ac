// SPDX-License-Identifier: GPL-3.0-or-later
/// Which thread is borrowed first.
#pragma once

#include <tuple>

#include "memleax/base/types.hpp"
#include "stop_cost.hpp"

namespace memleax {

/// A thread that is asleep in a call that the kernel begins again comes first, and one that
/// computes after it: what /proc tells of the first is certain until somebody wakes it, and the
/// second may be in the midst of a transfer just as well, awake for as long as it takes to copy a
/// part.
struct BorrowCandidate {
    bool is_filtered = false; ///< by seccomp, which we may not suspend
    bool is_stopped = false;
    StopCost cost{}; ///< of a stop
    Tid tid;

    /// The best first.
    friend bool operator<(const BorrowCandidate& a, const BorrowCandidate& b) {
        const auto order = [](const BorrowCandidate& each) {
            return std::make_tuple(each.is_filtered, !each.is_stopped, each.cost, each.tid);
        };
        return order(a) < order(b);
    }
};

} // namespace memleax
