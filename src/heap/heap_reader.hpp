// SPDX-License-Identifier: GPL-3.0-or-later
/// Reads the heap of a process: what it has in memory at a moment at which it stands still, and
/// then what that means.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "heap_books.hpp"
#include "heap_moment.hpp"
#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/modules.hpp"
#include "stored_memory.hpp"

namespace memleax {

/// What one look at a process has come to.
struct HeapLook {
    bool was_busy = false; ///< a thread was at work in the allocator
    HeapSnapshot snapshot;
};

class HeapReader {
  public:
    /// The modules, which must outlive this, are known. Nobody need stand still.
    static Result<HeapReader> make(const ModuleMap& modules);

    /// Of a process that stands still. `room`: for a copy of its memory, if there is any. It is
    /// taken if it is used.
    Result<HeapMoment> take(HeldProcess& process, std::vector<AddrRange> own_memory,
                            RoomForCopy* room);
    /// `readable` is the moment's, or the process's, which still stands still then.
    static HeapLook look_at(HeapMoment moment, MemoryReader& readable, const HeapOptions& options);

  private:
    HeapReader(const ModuleMap& modules, std::unique_ptr<HeapAllocator> allocator)
        : modules_(&modules), allocator_(std::move(allocator)) {}

    const ModuleMap* modules_;
    std::unique_ptr<HeapAllocator> allocator_;
};

} // namespace memleax
