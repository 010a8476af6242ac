// SPDX-License-Identifier: GPL-3.0-or-later
/// All that a look at a heap needs of a process at one moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heap_books.hpp"
#include "held_process.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/present_pages.hpp"
#include "stored_memory.hpp"
#include "thread_view.hpp"

namespace memleax {

struct HeapMoment {
    MonotonicNs time;
    std::unique_ptr<HeapBooks> books; ///< null: only blocks that others know of are looked at
    std::vector<ThreadView> threads;  ///< none: one of them was at work in the allocator
    std::vector<Mapping> mappings;
    std::unique_ptr<PresentPages> pages;
    std::vector<std::uint64_t> kernel_pointers;
    std::vector<AddrRange> own_memory; ///< ours: no heap of the program's, and no root
    /// Nothing: there is no room for a copy, and the process has to stand still while it is read.
    std::optional<StoredMemory> memory;
};

/// What there is besides the allocator's books, of a process that stands still. `room`: for a copy
/// of its memory, if there is any. It is taken if it is used.
Result<HeapMoment> take_moment(HeldProcess& process, std::vector<ThreadView> threads,
                               std::vector<AddrRange> own_memory,
                               std::optional<StoredMemory>* room);

/// Notes whose threads and mappings these were, for names.
void add_places(HeapMoment moment, HeapSnapshot* snapshot);

/// For one copy of a process's memory. What does not agree in it is read again in the process
/// itself.
class RoomForCopy {
  public:
    explicit RoomForCopy(const HeapOptions& options) : is_wanted_(!options.in_place) {}

    std::optional<StoredMemory>* of(Tid pid);

  private:
    bool is_wanted_;
    std::optional<StoredMemory> room_;
};

} // namespace memleax
