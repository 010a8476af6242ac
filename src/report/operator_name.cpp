// SPDX-License-Identifier: GPL-3.0-or-later
#include "operator_name.hpp"

#include <array>

namespace memleax {

std::size_t after_operator(std::string_view name, std::size_t at) {
    constexpr std::array<std::string_view, 21> kSigns{
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", // the longest first
        "<",   ">",   "+",   "-",   "*",  "/",  "=",  "!",  "&",  "|"};
    at += kOperator.size();
    for (const std::string_view sign : kSigns) {
        if (name.substr(at).starts_with(sign)) {
            return at + sign.size();
        }
    }
    return at;
}

} // namespace memleax
