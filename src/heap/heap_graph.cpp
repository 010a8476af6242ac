// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/heap_graph.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "memleax/base/error.hpp"

namespace memleax {

void sort_by_address(HeapBlocks* blocks) {
    const auto is_before = [](const HeapBlock& a, const HeapBlock& b) {
        return a.address < b.address;
    };
    if (!std::is_sorted(blocks->begin(), blocks->end(), is_before)) {
        std::sort(blocks->begin(), blocks->end(), is_before);
    }
}

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
    const bool has_places = !graph->details.root_places.empty();
    const bool has_link_words = !graph->details.link_words.empty();
    MEMLEAX_ASSERT(!has_places || has_link_words || graph->links.size() == 0);
    for (std::size_t i = 0; i < graph->roots.size(); ++i) {
        if (!is_dropped(graph->roots[i])) {
            result.roots.push_back(renumbered(graph->roots[i]));
            if (has_places) {
                details.root_places.push_back(graph->details.root_places[i]);
            }
        }
    }
    result.links.reserve(left);
    std::uint64_t at = 0; // the link's number
    for (std::uint32_t i = 0; i < count; ++i) {
        const HeapBlock& block = graph->blocks[i];
        if (!is_gone[i]) {
            result.blocks.push_back(block);
            if (!graph->details.pointer_offsets.empty()) {
                details.pointer_offsets.push_back_of(graph->details.pointer_offsets, i);
            }
            result.links.begin_block();
        }
        for (const BlockLink link : graph->links.of(i)) {
            const std::uint64_t number = at++;
            if (is_dropped(link)) {
                continue;
            }
            if (!is_gone[i]) {
                result.links.add(renumbered(link));
                if (has_link_words) {
                    details.link_words.push_back(graph->details.link_words[number]);
                }
                continue;
            }
            result.roots.push_back(renumbered(link));
            if (has_link_words) {
                details.root_places.push_back(
                    {.kind = RootPlace::Kind::memory,
                     .tid = {},
                     .address = block.address +
                                sizeof(std::uint64_t) * graph->details.link_words[number]});
            }
        }
    }
    result.links.finish(left);
    for (const FirstWord& first : graph->details.first_words) {
        if (!is_gone[first.block]) {
            details.first_words.push_back({numbers[first.block], first.word});
        }
    }
    *graph = std::move(result);
}

} // namespace memleax
