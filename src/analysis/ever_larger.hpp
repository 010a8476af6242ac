// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <optional>

#include "interval_sum.hpp"
#include "memleax/analysis/verdict.hpp"

namespace memleax {

/// Of a call stack whose blocks are no more than before: is each one replaced by a larger one, to
/// this day? Then it grows; else nothing. `longest_life`, in ns: of a block that was freed.
/// `oldest_live`: when that was allocated, if this is known.
std::optional<Judgement> judge_by_size(IntervalSpan intervals, MonotonicNs now,
                                       std::int64_t longest_life,
                                       std::optional<MonotonicNs> oldest_live);

} // namespace memleax
