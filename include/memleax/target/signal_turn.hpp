// SPDX-License-Identifier: GPL-3.0-or-later
/// Whose turn it is, where both signals and stops that take long want all of the tracer's time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memleax/base/types.hpp"

namespace memleax {

/// After a stop that took long, signals get as much time as it took, if one has come since the long
/// stop before: a thread that waits for a signal's delivery can do nothing else, and what made the
/// stop long, a full ring, may be full again at once.
class SignalTurn {
  public:
    /// A signal-delivery-stop is handed out.
    void on_signal() { any_ = true; }
    /// Need on_long_stop() be told of the stop that is handed out now?
    [[nodiscard]] bool asks_for_long_stops() const { return any_; }
    /// One that takes long is handed out.
    void on_long_stop(MonotonicNs now) {
        any_ = false;
        handed_out_ = now;
    }

    /// Is the stop that was handed out last one that is timed? Then begin() is to come.
    [[nodiscard]] bool is_to_begin() const { return handed_out_.value() != 0; }
    /// It has been dealt with.
    void begin(MonotonicNs now) {
        ends_ = MonotonicNs(now.value() + std::min(now.value() - handed_out_.value(), kLongestNs));
        handed_out_ = {};
    }
    /// Do stops that take long have to wait?
    [[nodiscard]] bool is_on() const { return ends_.value() != 0; }
    [[nodiscard]] bool is_over(MonotonicNs now) const { return now.value() >= ends_.value(); }
    void end() { ends_ = {}; }

  private:
    /// Whatever took so long: the one that waits is to go on, too.
    static constexpr std::int64_t kLongestNs = 100'000'000;

    bool any_ = false; ///< since the last long stop
    MonotonicNs handed_out_{};
    MonotonicNs ends_{};
};

} // namespace memleax
