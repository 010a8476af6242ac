// SPDX-License-Identifier: GPL-3.0-or-later
/// A report with all that the page can show, and the parts of a page.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "memleax/report/report.hpp"

namespace memleax {

/// A server after ten minutes: two call stacks leak, and each other verdict occurs; intervals and
/// memory samples.
Report server_report();

/// The same, in a control group that fills, on a machine whose memory gets less.
Report short_of_memory_report();

/// sample_report() with a complete leak check: lost blocks of its call stack 3, others of before
/// the watching, and reachable ones with their holders.
Report leak_check_report();

/// Call stacks of `depth` frames through shared functions, `stacks` of them, all different.
Report large_report(std::uint32_t stacks, std::uint32_t depth);

/// The headline of a page, with what stands below it.
std::string html_verdict(const std::string& page);

/// The data of a page.
nlohmann::json html_data(const std::string& page);

} // namespace memleax
