// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/heap_graph.hpp"

#include <cstddef>
#include <utility>

namespace memleax {

void drop_blocks(const std::vector<bool>& is_gone, HeapGraph* graph) {
    const std::size_t count = graph->blocks.size();
    std::vector<std::uint32_t> numbers(count);
    std::uint32_t left = 0;
    for (std::size_t i = 0; i < count; ++i) {
        numbers[i] = left;
        left += is_gone[i] ? 0 : 1;
    }
    const auto is_dropped = [&is_gone](BlockLink link) { return is_gone[link.block()]; };
    const auto renumbered = [&numbers](BlockLink link) {
        return BlockLink(numbers[link.block()], link.is_interior());
    };
    HeapGraph result;
    HeapDetails& details = result.details;
    const bool has_details = !graph->details.first_words.empty();
    for (std::size_t i = 0; i < graph->roots.size(); ++i) {
        if (!is_dropped(graph->roots[i])) {
            result.roots.push_back(renumbered(graph->roots[i]));
            if (has_details) {
                details.root_places.push_back(graph->details.root_places[i]);
            }
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        const HeapBlock& block = graph->blocks[i];
        if (!is_gone[i]) {
            result.blocks.push_back(block);
            result.first_link.push_back(result.links.size());
            if (has_details) {
                details.first_words.push_back(graph->details.first_words[i]);
            }
        }
        for (std::uint64_t at = graph->first_link[i]; at < graph->first_link[i + 1]; ++at) {
            const BlockLink link = graph->links[at];
            if (is_dropped(link)) {
                continue;
            }
            (is_gone[i] ? result.roots : result.links).push_back(renumbered(link));
            if (has_details && is_gone[i]) {
                details.root_places.push_back(
                    {.kind = RootPlace::Kind::memory,
                     .tid = {},
                     .address = RemoteAddr(block.address.value() +
                                           sizeof(std::uint64_t) * graph->details.link_words[at])});
            } else if (has_details) {
                details.link_words.push_back(graph->details.link_words[at]);
            }
        }
    }
    result.first_link.push_back(result.links.size());
    *graph = std::move(result);
}

} // namespace memleax
