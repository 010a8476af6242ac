// SPDX-License-Identifier: GPL-3.0-or-later
/// A heap's blocks counted by something that has a name: types, holders.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memleax/track/block_count.hpp"

namespace memleax {

using HeapCounts = std::map<std::string, BlockCount>;

/// Those with most bytes, most first: so many, or all that there are.
[[nodiscard]] std::vector<std::pair<std::string, BlockCount>> largest(const HeapCounts& counts,
                                                                      std::size_t most);

/// Adds what has been counted elsewhere, name by name.
void add_counts(const HeapCounts& more, HeapCounts* counts);

} // namespace memleax
