// SPDX-License-Identifier: GPL-3.0-or-later
/// Which files' debug information would say more of the leaks.
#pragma once

#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

/// "== No line numbers for redis-server (build ID 5a3f...): ..."; "" if each place where a call
/// stack of the text report leaks has one.
std::string missing_lines_text(const Report& report);

} // namespace memleax
