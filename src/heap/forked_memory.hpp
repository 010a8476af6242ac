// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process has in memory at a moment, taken by way of a forked copy of it: the process need
/// stand still for as long as it takes to make that, and runs on while it is read.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/present_pages.hpp"
#include "memleax/target/process_copy.hpp"
#include "stored_memory.hpp"

namespace memleax {

/// In their order.
std::vector<AddrRange> ranges_of(const std::vector<Mapping>& mappings);

class ForkedMemory {
  public:
    /// Of a process whose threads all stand still, and which keeps the copy
    /// (HeldProcess::keep_copy()), and of all its `mappings` those that are
    /// `searched`. What the copy does not have is read here and now: shared memory, mappings with
    /// MADV_DONTFORK, and those of `wiped` (MADV_WIPEONFORK).
    /// `memory` is the process's own. `pages` keeps which pages those mappings have. After a
    /// failure there is no copy, and `room` has nothing in it.
    static Result<std::unique_ptr<ForkedMemory>> take(HeldProcess& process, MemoryReader& memory,
                                                      const std::vector<Mapping>& mappings,
                                                      const std::vector<Mapping>& searched,
                                                      const std::vector<AddrRange>& wiped,
                                                      PresentPages* pages, StoredMemory* room);

    [[nodiscard]] const std::shared_ptr<ProcessCopy>& copy() const { return copy_; }
    /// The rest, from the copy, by any thread. EAGAIN, with `wiped` as it is to be next time:
    /// something was wiped of which that was not known. Any other Error: this process is not to be
    /// read so.
    Result<void> read(std::vector<AddrRange>* wiped, PresentPages* pages, StoredMemory* room);

  private:
    ForkedMemory(Tid pid, std::shared_ptr<ProcessCopy> copy) : pid_(pid), copy_(std::move(copy)) {}

    Tid pid_;
    std::shared_ptr<ProcessCopy> copy_;
    std::vector<Mapping> in_copy_;
};

} // namespace memleax
