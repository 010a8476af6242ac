// SPDX-License-Identifier: GPL-3.0-or-later
/// The words of blocks, as they come by when all memory of a process is read from its begin to its
/// end: what they point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "block_contents.hpp"
#include "block_index.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

class BlockWords {
  public:
    /// The blocks, which do not overlap, are those of `index`, and of the graph whose `contents`
    /// these are. All must outlive this.
    BlockWords(const BlockIndex& index, std::span<const HeapBlock> blocks, BlockContents* contents)
        : index_(index), blocks_(blocks), contents_(contents) {}

    /// A word at a multiple of 8, above all that have come before. False: no block has all of it.
    bool take(std::uint64_t at, std::uint64_t word) {
        while (at >= end_) {
            next();
        }
        if (at < begin_ || at + sizeof word > end_) {
            return false;
        }
        if (at == begin_) {
            contents_->take_first_word(word);
        }
        if (index_.may_be_link(word)) {
            add_link(at, word);
        }
        return true;
    }
    /// There are no more words.
    void finish() { contents_->finish(); }

  private:
    void next();
    void add_link(std::uint64_t at, std::uint64_t word);

    const BlockIndex& index_;
    std::span<const HeapBlock> blocks_;
    BlockContents* contents_;
    std::uint64_t begin_ = 0; ///< of the block that `at` is in or comes next
    std::uint64_t end_ = 0;
};

} // namespace memleax
