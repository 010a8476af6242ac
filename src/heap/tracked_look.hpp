// SPDX-License-Identifier: GPL-3.0-or-later
/// A look at blocks that somebody has watched being allocated, in a process whose allocator's books
/// we cannot read: those blocks, and everything else that the process has as roots.
#pragma once

#include <optional>
#include <vector>

#include "heap_moment.hpp"
#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "thread_block.hpp"

namespace memleax {

/// What is known of a process's libraries. Nobody need stand still.
struct KnownLibraries {
    explicit KnownLibraries(const ModuleMap& modules);
    /// That of the C library; one that says nothing, if that is another than those we know.
    const ThreadBlock* thread_block;
    bool jemalloc; ///< one whose own memory can be told (jemalloc_books.hpp)
};

/// Of a process that stands still. Nobody need be out of malloc: a block that is about to be given
/// out is none of those.
Result<HeapMoment> take_tracked_moment(HeldProcess& process, const ModuleMap& modules,
                                       std::vector<AddrRange> own_memory, RoomForCopy* room);

/// The blocks ascend and do not overlap. `readable` is the moment's, or the process's, which still
/// stands still then.
HeapSnapshot look_at_tracked(HeapMoment moment, MemoryReader& readable, HeapBlocks blocks,
                             const KnownLibraries& libraries, const HeapOptions& options);

} // namespace memleax
