// SPDX-License-Identifier: GPL-3.0-or-later
/// Follows links from blocks to blocks, one step further at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "link_guess.hpp"
#include "memleax/base/large_vector.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

/// Blocks come in an order that no cache foresees. So far ahead, the place of a block's links is
/// fetched, and then the links: both are what one waits for. (Not by functions that do nothing
/// else: gcc 12 takes those for pure, and leaves their calls out.)
class BreadthFirst {
  public:
    explicit BreadthFirst(const HeapGraph& graph) : links_(graph.links), guess_(graph) {}

    /// Its links are to be followed. Each block is pushed once; whoever pushes sees to that.
    void push(std::uint32_t block) {
        if (next_.size() < kLinksAhead) { // its turn comes too soon to look ahead
            __builtin_prefetch(guess_.of(block));
        }
        next_.push_back(block);
    }

    /// Calls `each(block, links)` for all that were pushed, and that it pushes itself, in order of
    /// their distance.
    template <class Each> void run(Each&& each) {
        while (!next_.empty()) {
            std::swap(now_, next_);
            next_.clear();
            const std::size_t count = now_.size();
            for (std::size_t i = 0; i < count; ++i) {
                if (i + kPlaceAhead < count) {
                    __builtin_prefetch(links_.place_of(now_[i + kPlaceAhead]));
                }
                if (i + kLinksAhead < count) {
                    __builtin_prefetch(links_.of(now_[i + kLinksAhead]).data());
                }
                each(now_[i], links_.of(now_[i]));
            }
        }
    }

  private:
    static constexpr std::size_t kPlaceAhead = 16;
    static constexpr std::size_t kLinksAhead = 8;

    const BlockLinks& links_;
    LinkGuess guess_;
    LargeVector<std::uint32_t> now_;  ///< at the same distance, ...
    LargeVector<std::uint32_t> next_; ///< ... and one step further
};

} // namespace memleax
