// SPDX-License-Identifier: GPL-3.0-or-later
/// When to look again for threads and children of whose birth the kernel tells nobody.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memleax/base/clock.hpp"

namespace memleax {

/// A look reads all of /proc while the target's stops wait. Somebody who cannot be seized (another
/// tracer's) goes on hitting, and would have it done each time: so the pause doubles behind a look
/// that was in vain.
class LookPause {
  public:
    static constexpr std::int64_t kShortestNs = 2'000'000;
    static constexpr std::int64_t kLongestNs = 1'000'000'000;

    [[nodiscard]] bool is_over(MonotonicNs now) const { return now.value() >= next_; }
    /// There was no reason for a look.
    void on_nothing(MonotonicNs now) { next_ = now.value() + kShortestNs; }
    /// `end`: of the look.
    void on_look(MonotonicNs end, bool found_somebody) {
        pause_ = found_somebody ? kShortestNs : std::min(2 * pause_, kLongestNs);
        next_ = end.value() + pause_;
    }

  private:
    std::int64_t next_ = 0; ///< in monotonic ns
    std::int64_t pause_ = kShortestNs;
};

} // namespace memleax
