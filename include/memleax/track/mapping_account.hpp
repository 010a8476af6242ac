// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of memory that calls have mapped, which ends piece by piece.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/track/block_count.hpp"
#include "memleax/track/intervals.hpp"
#include "memleax/track/mapped_ranges.hpp"
#include "memleax/track/mapping_log.hpp"
#include "memleax/track/stack_accounts.hpp"

namespace memleax {

/// The ranges that are followed.
struct MappedTotals {
    std::uint64_t mapped = 0;   ///< calls that have mapped something
    std::uint64_t unmapped = 0; ///< calls that have unmapped something that we knew
    std::uint64_t failed = 0;
    std::array<BlockCount, kMemoryKinds> live{}; ///< by MemoryKind; not heap
};

class MappingAccount {
  public:
    /// Counts at these stacks and in these intervals, which must outlive it.
    MappingAccount(StackAccounts& stacks, Intervals& intervals, std::int64_t expire_ns)
        : stacks_(stacks), intervals_(intervals), expire_ns_(expire_ns) {}

    void on_mapping(const MappingEvent& event);
    void on_mapped_before(std::span<const AddrRange> ranges);
    void on_own_mapping(AddrRange range);
    void set_expire_ns(std::int64_t expire_ns) { expire_ns_ = expire_ns; }
    /// Lets what was mapped up to then expire, `budget` mappings at most; true if there may be
    /// more.
    bool expire(MonotonicNs latest, std::size_t budget);
    /// Nobody will know what has been unmapped since: all is untracked.
    void forget();
    /// Nobody will ask for unexplained() any more.
    void forget_mapped_before() { mapped_before_.clear(); }
    /// The address space is gone.
    void end_all(MonotonicNs time);

    [[nodiscard]] const MappedRanges& ranges() const { return mapped_; }
    [[nodiscard]] const MappedTotals& totals() const { return totals_; }
    [[nodiscard]] const MappingLog& log() const { return log_; }
    /// See Tracker.
    [[nodiscard]] std::uint64_t unexplained(AddrRange range, std::uint64_t page_size) const;

  private:
    using Pieces = std::vector<MappedRanges::Piece>;
    void begin_unmapping(const MappingEvent& event);
    void begin_mapping(const MappingEvent& event, MemoryKind kind);
    void log_mapping(const MappingEvent& event, MemoryKind kind, AddrRange unmapped,
                     std::uint64_t known);
    /// True if there was anything.
    bool end_pieces(const Pieces& pieces, MonotonicNs time);
    [[nodiscard]] MemoryKind kind_of(const MappingEvent& event, const Pieces& unmapped) const;
    void expire_one(MappingId id);

    StackAccounts& stacks_;
    Intervals& intervals_;
    std::int64_t expire_ns_;
    MappedRanges mapped_;
    MappedRanges mapped_before_; ///< what was there when the watching began, as one mapping
    /// What calls under way are about to end; a signal handler may make one within another.
    struct Unmapping {
        AddrRange named; ///< by the call
        Pieces pieces;
        Pieces before; ///< of mapped_before_
    };
    absl::flat_hash_map<Tid, std::vector<Unmapping>> unmapping_;
    MappingLog log_;
    MappedTotals totals_;
};

} // namespace memleax
