// SPDX-License-Identifier: GPL-3.0-or-later
/// Names come from untrusted files; readers of protobuf and of JSON refuse what is not UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace memleax {

/// `text` with U+FFFD in place of each byte that belongs to no well-formed sequence.
std::string valid_utf8(std::string_view text);

} // namespace memleax
