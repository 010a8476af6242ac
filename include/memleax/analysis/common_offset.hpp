// SPDX-License-Identifier: GPL-3.0-or-later
/// Why are so many blocks possibly lost?
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/analysis/reachability.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

/// Pointers lead to so many of the possibly lost blocks at this distance behind their begin.
struct CommonOffset {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    friend bool operator==(const CommonOffset&, const CommonOffset&) = default;
};

/// If 100 blocks or more are possibly lost, and nine of ten have that in common: the distance that
/// most have. Nothing where nobody has noted any (HeapDetails::pointer_offsets).
[[nodiscard]] std::optional<CommonOffset> common_offset(const HeapGraph& graph,
                                                        const Reachability& reached);

} // namespace memleax
