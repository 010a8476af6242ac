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

/// The rate at which blocks come to stay, over the time that makes it easy to read: "5.2 MiB an
/// hour"; of what has no bytes "3 blocks a second". "" if none do.
std::string growth_text(const Judgement& judgement);

} // namespace memleax
