// SPDX-License-Identifier: GPL-3.0-or-later
/// The pointers that blocks have in them, block by block: compressed rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "memleax/base/large_vector.hpp"
#include "memleax/heap/block_link.hpp"

namespace memleax {

/// Four bytes a link and four a block; eight a block from 2^32 links on.
class BlockLinks {
  public:
    BlockLinks() = default;
    /// With more links than `most_narrow` a block takes eight bytes.
    explicit BlockLinks(std::uint64_t most_narrow) : most_narrow_(most_narrow) {}

    /// For so many blocks, with one link each.
    void reserve(std::size_t blocks);
    /// What is added from here on is of the next block.
    void begin_block();
    /// Of the block that began last.
    void add(BlockLink link) { links_.push_back(link); }
    /// There are so many blocks; those that have not begun have no links. To be called once, after
    /// which nothing is added, and before anything is asked.
    void finish(std::size_t blocks);
    /// So many have begun.
    [[nodiscard]] std::size_t begun() const {
        return wide_.empty() ? narrow_.size() : wide_.size();
    }

    /// Links have numbers, from block to block. The first one of this block, or of those behind it;
    /// size() for the number of blocks.
    [[nodiscard]] std::uint64_t first(std::size_t block) const {
        return wide_.empty() ? narrow_[block] : wide_[block];
    }
    [[nodiscard]] std::span<const BlockLink> of(std::uint32_t block) const {
        const std::uint64_t begin = first(block);
        return {links_.data() + begin, first(block + 1) - begin};
    }
    /// The block that this link is in.
    [[nodiscard]] std::uint32_t block_of(std::uint64_t link) const;
    [[nodiscard]] BlockLink operator[](std::uint64_t link) const { return links_[link]; }
    [[nodiscard]] std::uint64_t size() const { return links_.size(); }

    /// Where first() looks, to be fetched ahead: blocks that are read in no order wait for memory.
    [[nodiscard]] const void* place_of(std::size_t block) const {
        return wide_.empty() ? static_cast<const void*>(&narrow_[block]) : &wide_[block];
    }

    friend bool operator==(const BlockLinks& a, const BlockLinks& b) {
        return a.narrow_ == b.narrow_ && a.wide_ == b.wide_ && a.links_ == b.links_;
    }

  private:
    void add_place();

    std::uint64_t most_narrow_ = std::numeric_limits<std::uint32_t>::max();
    LargeVector<std::uint32_t> narrow_; ///< where each block's links begin, and where the last ends
    LargeVector<std::uint64_t> wide_;   ///< the same, if they are too many for `narrow_`
    LargeVector<BlockLink> links_;
};

} // namespace memleax
