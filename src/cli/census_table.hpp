// SPDX-License-Identifier: GPL-3.0-or-later
/// Censuses of the heap: counted, shown, compared.
#pragma once

#include <string>

#include "command.hpp"

namespace memleax {

/// Counts, and gives it a name.
Census& take_census(CommandContext& context, HeapView& heap, Census::Key key);
/// The rows with most bytes first.
std::string census_table(const Console& console, const Census& census, std::size_t rows);
[[nodiscard]] bool has_census(const CommandContext& context, const std::string& name);
/// What has grown from the one that is named to the last of its kind. Throws CommandError.
void compare_census(CommandContext& context, Arguments& arguments);

} // namespace memleax
