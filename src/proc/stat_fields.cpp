// SPDX-License-Identifier: GPL-3.0-or-later
#include "stat_fields.hpp"

#include <algorithm>

namespace memleax {

std::vector<std::string_view> words_of(std::string_view text) {
    // find_first_of() calls memchr(3) for each character.
    const auto is_between = [](char each) { return each == ' ' || each == '\t' || each == '\n'; };
    std::vector<std::string_view> words;
    for (const char* at = text.data(); at != text.data() + text.size();) {
        at = std::find_if_not(at, text.data() + text.size(), is_between);
        const char* const end = std::find_if(at, text.data() + text.size(), is_between);
        if (at != end) {
            words.emplace_back(at, static_cast<std::size_t>(end - at));
        }
        at = end;
    }
    return words;
}

std::vector<std::string_view> stat_fields(std::string_view stat) {
    const std::size_t close = stat.rfind(')');
    return close != std::string_view::npos ? words_of(stat.substr(close + 1))
                                           : std::vector<std::string_view>();
}

} // namespace memleax
