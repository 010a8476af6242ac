// SPDX-License-Identifier: GPL-3.0-or-later
/// Where about the links of a block are, to be fetched ahead. In a list that goes all over the heap
/// each step waits first for their place and then for them; neighbours mostly have as many links as
/// each other, so that both can be fetched at once. A bad guess costs a line of the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memleax/heap/heap_graph.hpp"

namespace memleax {

class LinkGuess {
  public:
    explicit LinkGuess(const HeapGraph& graph) {
        const std::size_t blocks = graph.blocks.size();
        if (blocks == 0) {
            return;
        }
        begin_ = graph.links.of(0).data();
        places_.reserve(blocks / kStep + 2);
        for (std::size_t block = 0; block < blocks; block += kStep) {
            places_.push_back(graph.links.first(block));
        }
        places_.push_back(graph.links.size());
    }

    [[nodiscard]] const BlockLink* of(std::uint32_t block) const {
        const std::uint64_t before = places_[block / kStep];
        const std::uint64_t more = places_[block / kStep + 1] - before;
        return begin_ + before + more * (block % kStep) / kStep;
    }

  private:
    static constexpr std::size_t kStep = 4096;
    const BlockLink* begin_ = nullptr;
    std::vector<std::uint64_t> places_; ///< of the links of each kStep-th block, and their end
};

} // namespace memleax
