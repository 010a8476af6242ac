// SPDX-License-Identifier: GPL-3.0-or-later
/// The account's live blocks, noted before a look at a process's memory, and which of them can be
/// judged by it: those that have been live from then until after it.
#pragma once

#include <cstddef>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/session/shared_tracker.hpp"

namespace memleax {

class TrackedBlocks {
  public:
    /// Notes those of memory, by address: no resources. Of blocks that overlap, as a pool that was
    /// allocated and what it gives, or as a free was not seen, the youngest.
    explicit TrackedBlocks(SharedTracker& tracker);

    [[nodiscard]] const HeapBlocks& blocks() const { return blocks_; }
    /// Takes blocks out of the snapshot that have ended since they were noted, or are being
    /// reallocated. False: what had happened by the snapshot's time has not all been told yet.
    [[nodiscard]] bool drop_ended(HeapSnapshot* snapshot) const;

  private:
    SharedTracker& tracker_;
    HeapBlocks blocks_;
    std::vector<MonotonicNs> times_; ///< at which they began
};

/// How many of the account's blocks from before this snapshot are none of the heap that it has
/// listed: those of another allocator. So may be as many as there are threads, whose calls were
/// under way. All that has happened before it has been told.
std::size_t count_unlisted(SharedTracker& tracker, const HeapSnapshot& snapshot);

} // namespace memleax
