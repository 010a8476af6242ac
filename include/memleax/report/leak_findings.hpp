// SPDX-License-Identifier: GPL-3.0-or-later
/// What a look at the heap has found, as a model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memleax/analysis/common_offset.hpp"
#include "memleax/analysis/reachability.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/report/heap_counts.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

/// So many blocks of a record are held by this one.
struct LeakHolder {
    std::string name;
    std::uint64_t blocks = 0;
};

/// Blocks of one class that have a call stack in common, or a size and a type where it is not
/// known.
struct LeakRecord {
    LossClass loss{};
    std::uint64_t size = 0; ///< of each, in bytes that may be used; 0: they differ
    BlockCount count;
    std::vector<RemoteAddr> addresses; ///< of lost ones, ascending: the first kMostAddresses
    std::string type;                  ///< of the objects in them; "" if that is not known
    std::uint64_t callstack = 0;       ///< its number; 0: not known
    std::uint32_t process = 0;         ///< index in Report::processes
    Backtrace frames;
    StackEnd end = StackEnd::outermost;
    std::vector<LeakHolder> holders; ///< of those that are held, most blocks first
    static constexpr std::size_t kMostAddresses = 100;
};

struct LeakFindings {
    double pause_s = 0; ///< for which the process stood still
    /// How long ago that was when the report was made; of several processes the longest. Absent:
    /// that look is all that there is.
    std::optional<double> age_s = {};
    /// If not, nothing is said of any block. Of several processes together: all are; the records
    /// are those of the ones that could be looked at.
    bool complete = false;
    std::string why; ///< it is not; or, if it is, why a later look has failed
    /// Why the heap could not be listed, so that only blocks that were watched are among these; ""
    /// if all blocks of the heap are.
    std::string unlisted;
    /// What could not be read, for the user: a block to which nothing points that was is possibly
    /// lost. "": all was read.
    std::string unread;
    std::array<BlockCount, kLossClasses> totals{}; ///< by LossClass
    /// Why most of the possibly lost ones are that; of several processes each has its own.
    std::optional<CommonOffset> common_offset;
    std::vector<LeakRecord> records; ///< by class, most bytes first
    HeapCounts types;                ///< of all blocks whose type is known
    HeapCounts holders; ///< variables, stacks, ...: what would be lost without each of them

    [[nodiscard]] const BlockCount& total(LossClass which) const {
        return totals[static_cast<std::size_t>(which)];
    }
};

} // namespace memleax
