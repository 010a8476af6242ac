// SPDX-License-Identifier: GPL-3.0-or-later
/// Whose function a demangled Rust name is: "<T as Trait>::f" does not begin with a crate.
#pragma once

#include <string_view>

namespace memleax {

/// Is this function in Rust's standard library (or in hashbrown, which its maps are), or an
/// allocator's entry? `name` without parameters, as by bare_name(). An impl belongs to the crate of
/// its type or of its trait: the user's type makes it the user's, and so does the user's trait.
bool is_rust_library(std::string_view name);

} // namespace memleax
