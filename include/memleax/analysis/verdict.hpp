// SPDX-License-Identifier: GPL-3.0-or-later
/// Does a call stack leak? Judged by what is left, at different ages, of what it has allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "memleax/track/intervals.hpp"

namespace memleax {

/// In ascending order of suspicion.
enum class Verdict : std::uint8_t { too_early, settled, plateau, growing, leaking };

/// "too early", "settled", ...
const char* describe(Verdict verdict);

struct Judgement {
    Verdict verdict = Verdict::too_early;
    double score = 0;        ///< orders call stacks of one verdict; more is worse
    std::string why;         ///< the figures that the verdict rests on, for people
    double blocks_per_s = 0; ///< rate at which blocks have come to stay, over the last intervals
    double bytes_per_s = 0;
};

/// `intervals` of one call stack, oldest first.
Judgement judge(std::span<const IntervalCount> intervals, MonotonicNs now);

} // namespace memleax
