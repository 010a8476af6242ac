// SPDX-License-Identifier: GPL-3.0-or-later
/// The value of --format.
#pragma once

#include <string>
#include <vector>

#include "memleax/report/report_writer.hpp"

namespace memleax {

/// Those that this build has.
std::vector<std::string> format_names();
/// A line for each, the default first.
std::string format_help();
/// Throws UsageError; for one that this build does not have, with the reason.
const ReportFormat* parse_format(const std::string& option, const std::string& text);

} // namespace memleax
