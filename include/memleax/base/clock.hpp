// SPDX-License-Identifier: GPL-3.0-or-later
/// The one clock of a session: CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include "memleax/base/types.hpp"

namespace memleax {

/// Now. Read through the vDSO (tens of nanoseconds), so it may be called for every event.
MonotonicNs monotonic_now();

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// A duration in nanoseconds as seconds.
constexpr double seconds(std::int64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}

/// And back.
constexpr std::int64_t nanoseconds(double seconds) {
    return static_cast<std::int64_t>(seconds * static_cast<double>(kNsPerSecond));
}

} // namespace memleax
