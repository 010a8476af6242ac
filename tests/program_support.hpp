// SPDX-License-Identifier: GPL-3.0-or-later
/// Programs of the system that a test needs and that not every machine has.
#pragma once

#include <string>

namespace memleax::testing {

/// Does PATH, or this path, lead to it?
bool has_program(const std::string& program);

/// The first compiler or other tool that this shell script mentions and that is not here; empty if
/// all are.
std::string missing_tool(const std::string& script);

} // namespace memleax::testing
