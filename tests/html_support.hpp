// SPDX-License-Identifier: GPL-3.0-or-later
/// A report with all that the page can show.
#pragma once

#include "memleax/report/report.hpp"

namespace memleax {

/// A server after ten minutes: two call stacks leak, and each other verdict occurs; intervals and
/// memory samples.
Report server_report();

/// Call stacks of `depth` frames through shared functions, `stacks` of them, all different.
Report large_report(std::uint32_t stacks, std::uint32_t depth);

} // namespace memleax
