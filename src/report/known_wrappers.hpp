// SPDX-License-Identifier: GPL-3.0-or-later
/// Names that wrappers of allocators have in well-known programs and libraries.
#pragma once

#include <string>

namespace memleax {

/// `name` without parameters, as by bare_name().
bool is_known_wrapper(const std::string& name);

} // namespace memleax
