// SPDX-License-Identifier: GPL-3.0-or-later
/// Names come from files and processes that we do not trust, and go to a terminal.
#pragma once

#include <algorithm>
#include <string>

namespace memleax {

/// `text` with control characters, such as begin a line or an escape sequence, replaced by '?'.
inline std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    return text;
}

} // namespace memleax
