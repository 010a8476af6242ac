// SPDX-License-Identifier: GPL-3.0-or-later
/// Lists of what names begin with.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace memleax {

inline bool begins_one_of(std::string_view text, std::span<const std::string_view> list) {
    return std::any_of(list.begin(), list.end(),
                       [text](std::string_view each) { return text.starts_with(each); });
}

} // namespace memleax
