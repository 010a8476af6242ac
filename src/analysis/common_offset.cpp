// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/analysis/common_offset.hpp"

#include <algorithm>
#include <array>

namespace memleax {

std::optional<CommonOffset> common_offset(const HeapGraph& graph, const Reachability& reached) {
    constexpr std::uint64_t kFewest = 100;
    constexpr std::uint64_t kMostOthers = 10; // one of so many
    const PointerOffsets& offsets = graph.details.pointer_offsets;
    const std::uint64_t possible = reached.total(LossClass::possible).blocks;
    if (possible < kFewest || offsets.empty()) {
        return std::nullopt;
    }
    std::array<std::uint64_t, PointerOffsets::kMostWords> blocks{};
    for (std::uint32_t i = 0; i < graph.blocks.size(); ++i) {
        if (reached.classes[i] == LossClass::possible) {
            for (std::size_t words = 1; words <= blocks.size(); ++words) {
                blocks.at(words - 1) += offsets.has(i, words) ? 1 : 0;
            }
        }
    }
    const auto* const most = std::max_element(blocks.begin(), blocks.end());
    if (possible - *most > possible / kMostOthers) {
        return std::nullopt;
    }
    const auto words = static_cast<std::uint64_t>(most - blocks.begin()) + 1;
    return CommonOffset{words * PointerOffsets::kWord, *most};
}

} // namespace memleax
