// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// Up to when all that threads have recorded has been told. Their entries are numbered by tickets,
/// of which one may come late: between its number and its place in the ring a thread can be
/// interrupted.
class DeliveredTickets {
  public:
    /// An entry has been told.
    void add(std::uint64_t ticket);
    /// At this time, later than all before, entries below `tickets` were there, or numbered.
    void mark(std::uint64_t tickets, MonotonicNs time);
    /// All that was recorded up to then has been told.
    [[nodiscard]] MonotonicNs until() const { return until_; }
    /// Tickets begin anew.
    void forget();

  private:
    /// That came early.
    void take_those_behind();

    /// Beyond so many that came out of order, others are not noted.
    static constexpr std::size_t kMostOutOfOrder = 1U << 20;
    /// Nobody needs so long between an entry's number and its place, but a thread that was killed
    /// there (a child by vfork), stopped (SIGSTOP), or is in a signal's handler that came there.
    static constexpr std::int64_t kMostWaitNs = 2'000'000'000;

    std::uint64_t in_order_ = 0; ///< without one missing
    std::set<std::uint64_t> out_of_order_;
    std::vector<std::pair<std::uint64_t, MonotonicNs>> marks_;
    MonotonicNs until_{};
};

} // namespace memleax
