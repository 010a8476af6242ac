// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process has allocated at one moment, and what points to it: live blocks, pointers between
/// them, pointers from outside of the heap. No addresses of ours, no process: data to be judged.
#pragma once

#include <cstdint>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// A live block, as the program knows it.
struct HeapBlock {
    RemoteAddr address;
    /// Bytes that may be used (malloc_usable_size(3)); where the heap cannot be listed, bytes asked
    /// for.
    std::uint64_t size = 0;
    friend bool operator==(const HeapBlock&, const HeapBlock&) = default;
};

/// Where a pointer leads to: a block by its number, to its first byte or into it.
class BlockLink {
  public:
    constexpr BlockLink() = default;
    constexpr BlockLink(std::uint32_t block, bool interior)
        : bits_(block << 1 | (interior ? 1U : 0U)) {}
    [[nodiscard]] constexpr std::uint32_t block() const { return bits_ >> 1; }
    /// Not to the block's first byte.
    [[nodiscard]] constexpr bool is_interior() const { return (bits_ & 1U) != 0; }
    friend constexpr bool operator==(BlockLink, BlockLink) = default;

  private:
    std::uint32_t bits_ = 0;
};

/// So many blocks fit a BlockLink.
inline constexpr std::uint64_t kMostHeapBlocks = 1ULL << 31;

/// Where a pointer stands that comes from outside of the heap.
struct RootPlace {
    enum class Kind : std::uint8_t {
        memory,    ///< at `address`: data, a stack, a mapping
        registers, ///< of thread `tid`
        thread,    ///< what libc keeps for thread `tid`
        kernel     ///< epoll data, a timer
    };
    Kind kind = Kind::memory;
    Tid tid;
    RemoteAddr address;
    friend bool operator==(const RootPlace&, const RootPlace&) = default;
};

/// What is asked of a snapshot besides blocks and links, at 12 bytes or so for each block and link.
struct HeapDetails {
    std::vector<RootPlace> root_places;     ///< one for each of HeapGraph::roots
    std::vector<std::uint32_t> link_words;  ///< of each link: which word of its block it is
    std::vector<std::uint64_t> first_words; ///< of each block, in which its type may be
};

struct HeapGraph {
    std::vector<HeapBlock> blocks; ///< by address, ascending
    /// links[first_link[n]] to links[first_link[n + 1]], exclusive, are those of block n; so one
    /// more than there are blocks. Both may be empty if there are no links.
    std::vector<std::uint64_t> first_link;
    std::vector<BlockLink> links;
    std::vector<BlockLink> roots; ///< from registers, stacks, data, and what the kernel keeps
    HeapDetails details;          ///< empty if nobody has asked for them
};

/// Takes blocks out, by their numbers (`is_gone` has one for each): what they had in them are roots
/// from then on. Linear.
void drop_blocks(const std::vector<bool>& is_gone, HeapGraph* graph);

} // namespace memleax
