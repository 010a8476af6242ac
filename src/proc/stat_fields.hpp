// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>
#include <vector>

namespace memleax {

/// What blanks, tabs and newlines separate; parts of `text`. Thousands of small files are read in a
/// moment where a process has a thousand threads, so a stream is too slow for it.
std::vector<std::string_view> words_of(std::string_view text);

/// The fields of /proc/PID/stat after the command name, which is in parentheses and may contain
/// anything, parentheses and blanks too. Element 0 is the state (field 3 of proc(5)); none if the
/// text has no name. They are parts of the text.
std::vector<std::string_view> stat_fields(std::string_view stat);

} // namespace memleax
