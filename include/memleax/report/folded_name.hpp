// SPDX-License-Identifier: GPL-3.0-or-later
/// Demangled names as people say them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memleax {

/// How functions and files are named where people read them.
enum class NameStyle : std::uint8_t {
    folded, ///< as by folded_name(); files without folders; runs of inlined std frames as one line
    whole   ///< all that is known (--full-names)
};

/// "shop::Cache<...>::put(std::string const&)": without a return type and the arguments that
/// templates of the standard library have by default; std::string by that name; long lists of a
/// template's arguments or of parameters as "...".
std::string folded_name(std::string_view function);

} // namespace memleax
