// SPDX-License-Identifier: GPL-3.0-or-later
/// The time of what a session knows.
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Begins when every breakpoint is in place for the first time, and stands still while nobody
/// watches. For the main thread.
class SessionClock {
  public:
    void begin(MonotonicNs now, std::int64_t unix_ns) {
        begun_ = now;
        begun_unix_ns_ = unix_ns;
    }
    [[nodiscard]] std::optional<MonotonicNs> begun() const { return begun_; }
    /// 0 before that.
    [[nodiscard]] std::int64_t begun_unix_ns() const { return begun_unix_ns_; }

    /// Nobody watches since.
    void freeze(MonotonicNs now) { frozen_at_ = now; }
    void thaw() { frozen_at_.reset(); }
    [[nodiscard]] bool is_frozen() const { return frozen_at_.has_value(); }

    [[nodiscard]] MonotonicNs now() const { return frozen_at_.value_or(monotonic_now()); }
    /// Since the begin; 0 before it.
    [[nodiscard]] double seconds_since_begin(MonotonicNs time) const {
        return begun_ ? seconds(time.value() - begun_->value()) : 0;
    }

  private:
    std::optional<MonotonicNs> begun_;
    std::int64_t begun_unix_ns_ = 0;
    std::optional<MonotonicNs> frozen_at_;
};

} // namespace memleax
