// SPDX-License-Identifier: GPL-3.0-or-later
/// All that a look at a heap needs of a process at one moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "forked_memory.hpp"
#include "heap_books.hpp"
#include "held_process.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/present_pages.hpp"
#include "shared_parts.hpp"
#include "stored_memory.hpp"
#include "thread_view.hpp"

namespace memleax {

struct HeapMoment {
    MonotonicNs time;
    std::unique_ptr<HeapBooks> books; ///< null: only blocks that others know of are looked at
    std::vector<ThreadView> threads;  ///< none: one of them was at work in the allocator
    std::vector<Mapping> mappings;
    std::unique_ptr<PresentPages> pages;
    /// There is shared memory that could not be read.
    bool lacks_shared = false;
    std::vector<std::uint64_t> kernel_pointers;
    std::vector<AddrRange> own_memory; ///< ours: no heap of the program's, and no root
    /// Nothing: there is no room for a copy, and the process has to stand still while it is read.
    std::optional<StoredMemory> memory;
    /// What `pages` has that is in no page table, to be read with what is in it; null: `memory` has
    /// it.
    std::unique_ptr<SharedParts> shared;
    /// A copy of the process, which has the rest of `memory` (RoomForCopy::complete()).
    std::unique_ptr<ForkedMemory> forked;
};

/// For one copy of a process's memory, and how that is made. What does not agree in it is read
/// again in the process itself.
class RoomForCopy {
  public:
    explicit RoomForCopy(const HeapOptions& options)
        : is_wanted_(!options.in_place), forks_(options.forks && !options.in_place),
          fork_from_(options.fork_from), told_(options.told) {}

    /// Before the process stands still.
    void prepare(Tid pid);
    /// When it does: can its memory be read without harm?
    [[nodiscard]] Result<void> check_readable(HeldProcess& process) const;
    /// By us, not in a copy of it.
    [[nodiscard]] const Result<void>& readable_in_place() const { return readable_in_place_; }
    [[nodiscard]] std::optional<StoredMemory>& memory() { return memory_; }
    /// Is the process to be forked for it?
    [[nodiscard]] bool forks() const { return forks_ && memory_; }
    /// It cannot be, from now on, and the user is told why.
    void do_not_fork(const Error& why);
    /// The user.
    void tell(const std::string& line);
    /// Mappings of which a copy has nothing, as far as is known.
    [[nodiscard]] std::vector<AddrRange>& wiped() { return wiped_; }
    /// When the process runs on: reads what the copy of it has, which is to be ended then. An Error
    /// means that there is no picture of this moment; another attempt may come.
    Result<void> complete(HeapMoment* moment);

  private:
    bool is_wanted_;
    bool forks_;
    std::uint64_t fork_from_;
    ToldOfLooks* told_;
    Tid pid_;
    std::optional<StoredMemory> memory_;
    std::vector<AddrRange> wiped_;
    std::vector<AddrRange> served_by_itself_; ///< before it stood still
    Result<void> readable_in_place_;
};

/// What there is besides the allocator's books, of a process that stands still. `room`: for a copy
/// of its memory, if there is any. It is taken if it is used.
Result<HeapMoment> take_moment(HeldProcess& process, std::vector<ThreadView> threads,
                               std::vector<AddrRange> own_memory, RoomForCopy* room);

/// Notes whose threads and mappings these were, for names.
void add_places(HeapMoment moment, HeapSnapshot* snapshot);

} // namespace memleax
