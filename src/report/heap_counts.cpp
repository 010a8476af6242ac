// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/heap_counts.hpp"

#include <algorithm>
#include <tuple>

namespace memleax {

std::vector<std::pair<std::string, BlockCount>> largest(const HeapCounts& counts,
                                                        std::size_t most) {
    std::vector<std::pair<std::string, BlockCount>> order(counts.begin(), counts.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.second.bytes, a.second.blocks) >
               std::tuple(b.second.bytes, b.second.blocks);
    });
    order.resize(std::min(order.size(), most));
    return order;
}

void add_counts(const HeapCounts& more, HeapCounts* counts) {
    for (const auto& [name, count] : more) {
        (*counts)[name] = (*counts)[name] + count;
    }
}

} // namespace memleax
