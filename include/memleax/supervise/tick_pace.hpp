// SPDX-License-Identifier: GPL-3.0-or-later
/// When to look at what was recorded without stops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memleax/base/types.hpp"

namespace memleax {

/// Ticks come more often while so much happens that threads would have to stop for want of room;
/// and where there is much to read, signals get as much time as they do, if there are any.
class TickPace {
  public:
    /// Where something is waited for, or many page faults come.
    static constexpr std::int64_t kSoonNs = 250'000;

    /// From one tick to the next, in ns.
    [[nodiscard]] std::int64_t period() const { return period_; }
    [[nodiscard]] bool is_due(MonotonicNs now) const { return now.value() >= next_.value(); }
    /// Something is waited for: the next tick is due at once, and the one after it soon.
    void hurry() {
        period_ = kSoonNs;
        next_ = MonotonicNs();
    }
    /// A stop was dealt with, of a thread that gets a signal of its own if `is_signals`.
    void on_stop(bool is_signals) { has_served_signals_ |= is_signals; }
    /// A tick took from `begin` to `end`, and the next one is wanted within so many ns.
    void on_tick(MonotonicNs begin, MonotonicNs end, std::int64_t within) {
        // By halves, so that the timer is rarely set anew.
        period_ = kUsualNs;
        while (period_ > within && period_ > kShortestNs) {
            period_ /= 2;
        }
        const std::int64_t took = has_served_signals_ ? end.value() - begin.value() : 0;
        next_ = MonotonicNs(begin.value() + took + std::max(period_ / 2, took));
        has_served_signals_ = false;
    }

  private:
    static constexpr std::int64_t kUsualNs = 4'000'000;
    static constexpr std::int64_t kShortestNs = kUsualNs / 64;

    std::int64_t period_ = kUsualNs;
    MonotonicNs next_{};
    bool has_served_signals_ = false; ///< since the last tick
};

} // namespace memleax
