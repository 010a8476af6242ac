// SPDX-License-Identifier: GPL-3.0-or-later
/// Demangled names, shortened for where there is little room.
#pragma once

#include <string_view>

namespace memleax {

/// The name alone: "void shop::Store<int>::open(unsigned) const [clone .isra.0]" gives
/// "shop::Store<int>::open". A part of `function`.
std::string_view bare_name(std::string_view function);

/// Does a list of parameters end the name, but for qualifiers and clones: "f(int) const [clone
/// .cold]"? So it is in C++, and never in Rust.
bool has_parameters(std::string_view function);

} // namespace memleax
