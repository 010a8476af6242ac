// SPDX-License-Identifier: GPL-3.0-or-later
/// From the tracker's account to the report's model.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "memleax/report.hpp"
#include "memleax/source_frame.hpp"
#include "memleax/tracker.hpp"

namespace memleax {

/// Turns a stack into what people read. May be slow; is called once for each stack reported.
using StackResolver = std::function<Backtrace(StackId)>;

/// Fills `report` with counts and with every call stack that has live or expired blocks, most
/// leaked bytes last. Ages are those at `now`. Stacks without a number get one. Times of intervals
/// are since `watching_since`; without it, since the first interval of the session.
void fill_report(Tracker& tracker, MonotonicNs now, const StackResolver& resolve, Report* report,
                 std::optional<MonotonicNs> watching_since = std::nullopt);

/// The verdict on one stack, and what it rests on. Nothing if there are no intervals.
void fill_intervals(const Intervals& intervals, StackId id, MonotonicNs now,
                    MonotonicNs watching_since, CallStackReport* stack);

} // namespace memleax
