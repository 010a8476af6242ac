// SPDX-License-Identifier: GPL-3.0-or-later
/// What a tracker knows at one time, copied in small pieces: whoever feeds it does not wait long.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memleax/track/tracker.hpp"

namespace memleax {

struct StackSnapshot {
    StackId id;
    CallStackAccount account;
    StackEnd end = StackEnd::outermost;
    std::optional<MonotonicNs> oldest; ///< when its oldest live block began
    std::vector<IntervalCount> intervals;
};

/// Where allocations were called that are not followed.
struct UnfollowedSnapshot {
    StackId id;
    BlockCount calls; ///< and the bytes that they asked for
    Unseen why{};
    StackEnd end = StackEnd::outermost;
};

/// Each call stack is exact for the moment at which it was copied.
struct TrackerSnapshot {
    MonotonicNs time;
    EventCounts events;
    SeenCalls calls;
    std::vector<MemoryError> errors;
    MappedTotals mapped;
    /// Those that have live blocks, have let some expire, or have some of which nobody knows.
    std::vector<StackSnapshot> stacks;
    std::vector<UnfollowedSnapshot> unfollowed;
};

/// Makes a snapshot. Between two pieces the tracker may take events.
class SnapshotCopier {
  public:
    explicit SnapshotCopier(MonotonicNs now) { snapshot_.time = now; }
    /// Copies some call stacks, or looks at some blocks, within about 100 microseconds; gives the
    /// stacks that it copies a number. False when all is done.
    bool copy_some(Tracker& tracker);
    [[nodiscard]] TrackerSnapshot take() { return std::move(snapshot_); }

  private:
    void copy_stacks(Tracker& tracker);
    void find_oldest(const Tracker& tracker);
    void find_oldest_mapped(const Tracker& tracker);
    void note_oldest(StackId stack, MonotonicNs time);

    TrackerSnapshot snapshot_;
    std::vector<std::uint32_t> place_; ///< of a stack in the snapshot, by StackId; kNowhere
    std::uint32_t next_stack_ = 0;
    std::uint32_t next_block_ = 0;
    std::optional<MappingId> next_mapping_ = MappingId(0); ///< absent: all have been looked at
};

} // namespace memleax
