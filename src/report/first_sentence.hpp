// SPDX-License-Identifier: GPL-3.0-or-later
/// The answer in one line, for who reads no further.
#pragma once

#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

/// What the report comes to, without a full stop: "LEAK: parse_line (leak.c:7) by way of strdup:
/// 5.2 MiB an hour, 40 % never freed". "LEAK" only if a verdict says so; else what is known, and
/// what is not.
std::string first_sentence(const Report& report);

} // namespace memleax
