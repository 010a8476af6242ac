// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

namespace memleax {

/// The time of day, "15:04:05".
std::string clock_text();

} // namespace memleax
