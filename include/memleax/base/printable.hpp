// SPDX-License-Identifier: GPL-3.0-or-later
/// Names come from files and processes that we do not trust, and go to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace memleax {

/// Valid UTF-8: what is not is replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// `text` as valid UTF-8, with everything replaced by '?' that a terminal does not show but obeys:
/// control characters (C0, DEL, and C1, where CSI has a character of its own), line and paragraph
/// separators, and the marks that turn the direction of writing, which make a name look like
/// another one (Unicode TR 36, section 2.6).
std::string printable(std::string_view text);

} // namespace memleax
