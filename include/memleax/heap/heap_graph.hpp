// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process has allocated at one moment, and what points to it: live blocks, pointers between
/// them, pointers from outside of the heap. No addresses of ours, no process: data to be judged.
#pragma once

#include <cstdint>
#include <vector>

#include "memleax/base/large_vector.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/block_link.hpp"
#include "memleax/heap/block_links.hpp"
#include "memleax/heap/pointer_offsets.hpp"

namespace memleax {

/// A live block, as the program knows it.
struct HeapBlock {
    RemoteAddr address;
    /// Bytes that may be used (malloc_usable_size(3)); where the heap cannot be listed, bytes asked
    /// for.
    std::uint64_t size = 0;
    friend bool operator==(const HeapBlock&, const HeapBlock&) = default;
};
using HeapBlocks = LargeVector<HeapBlock>;
/// Cheap if they are in order, as an allocator's books mostly have them.
void sort_by_address(HeapBlocks* blocks);

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

/// A block's first word, if it may be the address of a vtable: one of a file's data.
struct FirstWord {
    std::uint32_t block = 0;
    std::uint64_t word = 0;
    friend bool operator==(const FirstWord&, const FirstWord&) = default;
};

/// What is asked of a snapshot besides blocks and links.
struct HeapDetails {
    std::vector<RootPlace> root_places;    ///< one for each of HeapGraph::roots
    LargeVector<FirstWord> first_words;    ///< by block, ascending
    LargeVector<std::uint32_t> link_words; ///< of each link: which word of its block it is
    PointerOffsets pointer_offsets;        ///< of pointers from anywhere
};

struct HeapGraph {
    HeapBlocks blocks;            ///< by address, ascending
    BlockLinks links;             ///< finished for these blocks
    std::vector<BlockLink> roots; ///< from registers, stacks, data, and what the kernel keeps
    bool lacks_roots = false;     ///< there may be more: a part of the memory was not read
    HeapDetails details;          ///< empty, or each vector empty, if nobody has asked for it
};

/// Takes blocks out, by their numbers (`is_gone` has one for each): what they had in them are roots
/// from then on, whose places their link words tell. Linear.
void drop_blocks(const std::vector<bool>& is_gone, HeapGraph* graph);

} // namespace memleax
