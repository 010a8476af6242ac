// SPDX-License-Identifier: GPL-3.0-or-later
/// Which block does a word point to? Asked for each word of a process, so it has to be fast: one
/// bit for each 16 bytes in which a block may begin (fewer where blocks begin at others), and
/// counts to number the blocks by.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

class BlockIndex {
  public:
    /// What comes behind a block.
    enum class Behind {
        header,  ///< glibc: the next one's, from the block's last word on, if its size says that
        nothing, ///< that any pointer leads to, not even the allocator's
        /// What a size class has more than was asked for: malloc_usable_size(3) tells the program
        /// of it, so a pointer to there is one into the block.
        spare
    };
    /// The blocks, by address, must outlive the index, and do not overlap.
    explicit BlockIndex(std::span<const HeapBlock> blocks, Behind behind = Behind::header);

    /// A pointer to the last word of a block with another one behind it: there the next block's
    /// header begins, to which the allocator's own lists point, of which copies remain in reused
    /// memory and on stacks.
    enum class LastWord {
        is_header, ///< it is none
        is_block   ///< it comes from where there are no such copies, and is one into the block
    };
    /// A pointer to the end of a block with another one behind it is one into the block: an array
    /// may be kept by the address behind its only element, and nothing of malloc's is there to
    /// point to. So is one to the end of any block with nothing behind. Anything further is none,
    /// but for what is spare.
    [[nodiscard]] std::optional<BlockLink> find(std::uint64_t word,
                                                LastWord last = LastWord::is_header) const {
        return may_be_link(word) ? find_in_regions(untagged(word), last) : std::nullopt;
    }
    /// With Behind::spare a block may end where the one of this link, to a first byte, begins. Then
    /// a pointer there may be one to the end of the former, which is kept by it: the link that
    /// comes besides.
    [[nodiscard]] std::optional<BlockLink> find_end_at(BlockLink link) const {
        if (behind_ != Behind::spare || link.is_interior() || link.block() == 0) {
            return std::nullopt;
        }
        const HeapBlock& before = blocks_[link.block() - 1];
        return before.address + before.size == blocks_[link.block()].address
                   ? std::optional(BlockLink(link.block() - 1, true))
                   : std::nullopt;
    }
    [[nodiscard]] const HeapBlock& block(BlockLink link) const { return blocks_[link.block()]; }
    /// How far behind the block's begin this word, of which find() has made the link, leads.
    [[nodiscard]] std::uint64_t offset(BlockLink link, std::uint64_t word) const {
        return untagged(word) - block(link).address.value();
    }
    /// Most words are no links, and nothing more is to be done for them.
    [[nodiscard]] bool may_be_link(std::uint64_t word) const {
        return untagged(word) >= lowest_ && untagged(word) <= highest_;
    }

  private:
    /// Blocks near each other. One that is large is alone, and needs no bits.
    struct Region {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        std::uint32_t first_block = 0;
        std::uint32_t blocks = 0;
        std::size_t first_word = 0; ///< of its bits
        unsigned shift = 0;         ///< its blocks begin so many places of 2^shift bytes apart
    };
    /// 64 places, and how many blocks of the region begin before them.
    struct Places {
        std::uint64_t begins = 0;
        std::uint32_t before = 0;
    };

    /// A tag is the program's business, and no part of the address.
    static constexpr std::uint64_t untagged(std::uint64_t word) {
        return word & arch::kDataAddressBits;
    }
    [[nodiscard]] std::optional<BlockLink> find_in_regions(std::uint64_t word, LastWord last) const;
    void add_region(std::size_t first, std::size_t count);
    [[nodiscard]] std::uint64_t spare_of(std::uint64_t size) const;

    std::span<const HeapBlock> blocks_;
    Behind behind_;
    std::vector<Region> regions_; ///< ascending
    std::vector<Places> places_;
    std::uint64_t lowest_ = ~0ULL; ///< no word is in none
    std::uint64_t highest_ = 0;
};

} // namespace memleax
