// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memleax {

/// The fields of /proc/PID/stat after the command name, which is in parentheses and may contain
/// anything, parentheses and blanks too. Element 0 is the state (field 3 of proc(5)); none if the
/// text has no name.
std::vector<std::string> stat_fields(std::string_view stat);

} // namespace memleax
