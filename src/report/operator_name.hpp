// SPDX-License-Identifier: GPL-3.0-or-later
/// C++ operators in demangled names, whose signs are not brackets.
#pragma once

#include <cstddef>
#include <string_view>

namespace memleax {

inline constexpr std::string_view kOperator = "operator";

/// `at` is where "operator" begins; the result where its sign ends: "operator<<", "operator()".
/// Arguments of a template may follow: "operator+<char>", "operator<< <char>".
std::size_t after_operator(std::string_view name, std::size_t at);

} // namespace memleax
