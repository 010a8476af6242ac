// SPDX-License-Identifier: GPL-3.0-or-later
/// What being traced costs a process: how much of the time in which its threads would run they
/// spend in ptrace-stops, whether the tracer is at work on them or they wait for it.
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/base/types.hpp"

namespace memleax {

/// Looks at threads. Those that sleep count as neither.
struct StopSamples {
    std::uint64_t running = 0; ///< or ready to run, and without a CPU
    std::uint64_t stopped = 0;

    [[nodiscard]] std::uint64_t all() const { return running + stopped; }
    /// Nothing if none would have run.
    [[nodiscard]] std::optional<double> share() const {
        return all() == 0
                   ? std::nullopt
                   : std::optional(static_cast<double>(stopped) / static_cast<double>(all()));
    }
    StopSamples& operator+=(const StopSamples& other) {
        running += other.running;
        stopped += other.stopped;
        return *this;
    }
};

/// Looks at all threads of a process each millisecond, for so long, and once at least. /proc tells,
/// so that the process is not touched, and nothing has to be counted at each stop.
StopSamples sample_stops(Tid pid, std::int64_t duration_ns);

} // namespace memleax
