// SPDX-License-Identifier: GPL-3.0-or-later
/// What an allocator must tell of itself, so that the heap of a process that uses it can be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "block_index.hpp"
#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "thread_block.hpp"
#include "thread_view.hpp"

namespace memleax {

/// Which parts of a mapping have pages: what has none is zero, or as in the file.
using PresentParts = std::function<std::vector<AddrRange>(AddrRange)>;

/// Where the allocator's variables may be, in a mapping of its module's. What a file's mapping has
/// no pages of is as in the file.
inline std::vector<AddrRange> parts_to_search(const Mapping& mapping, const PresentParts& present) {
    return mapping.inode != 0 ? std::vector{mapping.range} : present(mapping.range);
}

/// What a walk through the books of a process that stands still is told of it.
struct WalkInput {
    std::span<const Mapping> mappings;
    std::span<const std::uint64_t> thread_pointers;
    PresentParts present;
};

struct WalkedHeap {
    std::string why;   ///< what does not agree; "" if all does
    HeapBlocks blocks; ///< by address
    /// Memory that is the allocator's: its own books, and what blocks are made of.
    std::vector<AddrRange> ranges;
};

/// The books of one process's allocator, where they were found at one moment.
class HeapBooks {
  public:
    HeapBooks() = default;
    HeapBooks(const HeapBooks&) = delete;
    HeapBooks& operator=(const HeapBooks&) = delete;
    virtual ~HeapBooks() = default;

    /// Lets threads that are changing the books come to an end of that. Returns all threads, or
    /// none if that takes longer than a second.
    virtual Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process,
                                                         const ModuleMap& modules) const = 0;
    /// All live blocks. Everything that the books say twice is compared.
    virtual WalkedHeap walk(MemoryReader& memory, WalkInput input) const = 0;

    [[nodiscard]] virtual BlockIndex::Behind behind_blocks() const = 0;
    [[nodiscard]] virtual const ThreadBlock& thread_block() const = 0;
};

/// An allocator whose books we know, as the modules of a process show it: nobody need stand still.
class HeapAllocator {
  public:
    HeapAllocator() = default;
    HeapAllocator(const HeapAllocator&) = delete;
    HeapAllocator& operator=(const HeapAllocator&) = delete;
    virtual ~HeapAllocator() = default;

    /// Threads may run meanwhile, and a moment may show no books; EAGAIN then.
    virtual Result<std::unique_ptr<HeapBooks>> find_books(std::span<const Mapping> mappings,
                                                          MemoryReader& memory,
                                                          const PresentParts& present) const = 0;
};

/// That of the process; the reason if it is none that we know, for the user. The modules must
/// outlive it.
Result<std::unique_ptr<HeapAllocator>> find_heap_allocator(const ModuleMap& modules);

} // namespace memleax
