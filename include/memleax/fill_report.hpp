// SPDX-License-Identifier: GPL-3.0-or-later
/// From the tracker's account to the report's model.
#pragma once

#include <functional>
#include <vector>

#include "memleax/report.hpp"
#include "memleax/source_frame.hpp"
#include "memleax/tracker.hpp"

namespace memleax {

/// Turns a stack into what people read. May be slow; is called once for each stack reported.
using StackResolver = std::function<Backtrace(StackId)>;

/// Fills `report` with counts and with every call stack that has live or expired blocks, most
/// leaked bytes last. Ages are those at `now`. Stacks without a number get one.
void fill_report(Tracker& tracker, MonotonicNs now, const StackResolver& resolve, Report* report);

} // namespace memleax
