// SPDX-License-Identifier: GPL-3.0-or-later
/// The words of blocks, as they come by when all memory of a process is read from its begin to its
/// end: what they point to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_index.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

class BlockWords {
  public:
    /// The blocks of `graph`, which do not overlap, are those of `index`; both must outlive this.
    /// Links, and with `details` what is asked of them, are added to the graph.
    BlockWords(const BlockIndex& index, HeapGraph* graph, bool details);

    /// A word at a multiple of 8, above all that have come before. False: no block has all of it.
    bool take(std::uint64_t at, std::uint64_t word) {
        while (at >= end_) {
            next();
        }
        if (at < begin_ || at + sizeof word > end_) {
            return false;
        }
        if (details_ && at == begin_) {
            graph_->details.first_words[block_] = word;
        }
        if (index_.may_be_link(word)) {
            add_link(at, word);
        }
        return true;
    }
    /// There are no more words.
    void finish();

  private:
    void next();
    void add_link(std::uint64_t at, std::uint64_t word);

    const BlockIndex& index_;
    HeapGraph* graph_;
    bool details_;
    std::size_t block_ = 0;   ///< the one that `at` is in or comes next
    std::uint64_t begin_ = 0; ///< of it
    std::uint64_t end_ = 0;
};

} // namespace memleax
