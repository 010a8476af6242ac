// SPDX-License-Identifier: GPL-3.0-or-later
/// How long somebody is waited for who may never come: no wait for one thread lasts for ever.
#pragma once

#include <cstdint>

#include "memleax/base/clock.hpp"

namespace memleax {

/// Begins when it is made. Whoever holds one has another way to take when it is over.
class Patience {
  public:
    explicit Patience(std::int64_t ms) : ms_(ms) { begin_anew(); }

    void begin_anew() { begin_ = monotonic_now(); }
    [[nodiscard]] bool is_over() const {
        constexpr std::int64_t kNsPerMs = 1'000'000;
        return monotonic_now().value() - begin_.value() > ms_ * kNsPerMs;
    }

  private:
    std::int64_t ms_;
    MonotonicNs begin_;
};

/// For a thread in the kernel that does not stop before somebody else has done something: a child
/// by vfork has ended, a file server has answered.
inline constexpr std::int64_t kMostMsForOthers = 2000;

} // namespace memleax
