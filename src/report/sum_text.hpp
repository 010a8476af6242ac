// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

/// The text report's last line: what all call stacks that are shown come to. Those with old blocks
/// that settled or are at a plateau are no suspects.
std::string sum_text(const Report& report);

} // namespace memleax
