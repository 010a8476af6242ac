// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of a session: live blocks, and what each call stack has allocated, freed, let
/// expire.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/track/block_checker.hpp"
#include "memleax/track/block_count.hpp"
#include "memleax/track/freed_blocks.hpp"
#include "memleax/track/intervals.hpp"
#include "memleax/track/live_blocks.hpp"
#include "memleax/track/mapped_ranges.hpp"
#include "memleax/track/mapping_log.hpp"
#include "memleax/track/memory_error.hpp"
#include "memleax/track/stack_table.hpp"

namespace memleax {

/// What happened at one call stack. Its blocks are mappings if its kind is not heap: one counts as
/// ended with its last byte, and its bytes as they go.
struct CallStackAccount {
    std::uint32_t id = 0; ///< the number that people see: 1, 2, ... by first expiry; 0: none yet
    MemoryKind kind = MemoryKind::heap; ///< a stack has one: its innermost function tells
    BlockCount alloc;                   ///< began here
    BlockCount free;                    ///< of those, ended
    BlockCount expired;                 ///< of those, lived longer than the expire threshold
    BlockCount free_expired;            ///< of those, ended after that
    BlockCount untracked;               ///< began here, and nobody knows whether they ended
    BlockCount untracked_expired;       ///< of those, expired
    std::int64_t lifetime_min = 0;      ///< ns, of the ended ones
    std::int64_t lifetime_max = 0;
    double lifetime_sum = 0;
    BlockCount unfollowed; ///< allocations called from here of which nobody knows what they gave
    Unseen why_unfollowed = Unseen::generated_code;

    [[nodiscard]] BlockCount live() const { return alloc - free - untracked; }
    /// Expired and still there.
    [[nodiscard]] BlockCount may_leak() const { return expired - free_expired - untracked_expired; }
};

/// Calls, by what they did.
struct EventCounts {
    std::uint64_t alloc = 0;        ///< began a block where there was none
    std::uint64_t free = 0;         ///< ended a block that we knew (realloc to size 0 included)
    std::uint64_t realloc = 0;      ///< replaced a block
    std::uint64_t failed_alloc = 0; ///< returned null, or an error
    std::uint64_t unfollowed_alloc =
        0;                          ///< nobody knows what they returned: EventKind::unseen_alloc
    std::uint64_t unknown_free = 0; ///< of a block from before the attach, or that we do not know
    std::uint64_t double_free =
        0; ///< of a block that was live, was freed, and was not given out again
    std::uint64_t invalid_free = 0;    ///< of what is no block, and never was one (--check)
    std::uint64_t mismatched_free = 0; ///< counted above, too: by the wrong function (--check)

    [[nodiscard]] std::uint64_t all() const {
        return alloc + free + realloc + failed_alloc + unfollowed_alloc + unknown_free +
               double_free + invalid_free;
    }
};

/// The ranges that are followed.
struct MappedTotals {
    std::uint64_t mapped = 0;   ///< calls that have mapped something
    std::uint64_t unmapped = 0; ///< calls that have unmapped something that we knew
    std::uint64_t failed = 0;
    std::array<BlockCount, kMemoryKinds> live{}; ///< by MemoryKind; not heap
};

/// Something to tell the user while the session runs.
struct Notice {
    enum class Kind {
        expired,               ///< `count` blocks so far at this stack; `size` of the last
        expired_freed,         ///< `age` ns
        too_many_expired_free, ///< this stack is not mentioned any more
        memory_error,          ///< `error`; its first time, its tenth, its hundredth, ...
        block_limit,           ///< memory_block_max reached at this stack: the session is to end
        stack_limit            ///< call_stack_max reached: likewise
    };
    Kind kind{};
    StackId stack = kNoStack;
    std::uint32_t id = 0; ///< of the stack, as people see it
    std::uint64_t size = 0;
    std::uint64_t count = 0;
    std::int64_t age = 0;
    MemoryError error{};
};

/// Takes events from one thread; no locks inside.
class Tracker final : public EventSink, public StackInterner, public AccountQueries {
  public:
    struct Options {
        std::int64_t expire_ns = 10'000'000'000;
        std::uint64_t memory_block_max = 0;      ///< expired blocks at one stack; 0: no limit
        std::uint64_t call_stack_max = 0;        ///< stacks with expired blocks; 0: no limit
        bool notices = true;                     ///< false: only the limits are noticed
        std::int64_t interval_ns = kNsPerSecond; ///< length of the youngest interval
        bool check = false; ///< frees come with their stacks; look for all kinds of MemoryError
    };
    explicit Tracker(const Options& options);

    StackId intern(std::span<const FrameAddress> frames, StackEnd end) override;
    void on_events(std::span<const AllocationEvent> events) override;
    void on_watermark(MonotonicNs time) override { watermark_ = time; }
    void on_seen_calls(const SeenCalls& calls) override { seen_calls_ = calls; }
    [[nodiscard]] const SeenCalls& seen_calls() const { return seen_calls_; }
    void on_mapping(const MappingEvent& event) override;
    void on_mapped_before(std::span<const AddrRange> ranges) override;
    bool wants_free_stack(RemoteAddr address) override;
    bool is_live(RemoteAddr address) override { return blocks_.find(address).has_value(); }
    void are_live(std::span<const RemoteAddr> addresses, std::span<std::uint8_t> answers) override;
    void on_code_gone(AddrRange range) override { stacks_.on_code_gone(range); }
    void on_memory_gone(MonotonicNs time) override;
    void on_generation(std::uint32_t generation) override { stacks_.set_generation(generation); }

    /// `now`, or the latest time before it of which all has been told.
    [[nodiscard]] MonotonicNs told_until(MonotonicNs now) const {
        return std::min(now, watermark_);
    }
    /// Moves blocks that are old enough at `now`, as far as that is told, to the expired ones,
    /// `budget` at most, and returns whether there may be more. Costs only what expires. A block
    /// that is freed at that age has expired, whether or not this has come by. Begins a new
    /// interval when it is time.
    bool expire(MonotonicNs now, std::size_t budget);
    /// When the next block will expire if it is not freed before.
    [[nodiscard]] std::optional<MonotonicNs> next_expiry() const;
    /// What has come up since the last call. Not more than some thousands are kept; of "expired"
    /// notices beyond that only the last of each stack's is not told.
    std::vector<Notice> take_notices();
    /// Sets all live blocks aside, as untracked: frees were missed. To be called at the end of a
    /// time without breakpoints, before they are put in again. If intervals are being recorded,
    /// they start anew. One pass over all blocks.
    void forget_live(MonotonicNs now);
    void on_gap(MonotonicNs time) override { forget_live(time); }
    /// From now on blocks expire at this age. Those that have expired stay so.
    void set_expire_ns(std::int64_t expire_ns) { options_.expire_ns = expire_ns; }

    [[nodiscard]] StackTable& stacks() { return stacks_; }
    [[nodiscard]] const StackTable& stacks() const { return stacks_; }
    [[nodiscard]] const LiveBlocks& blocks() const { return blocks_; }
    [[nodiscard]] const EventCounts& events() const { return events_; }
    [[nodiscard]] const std::vector<MemoryError>& errors() const { return errors_.all(); }
    [[nodiscard]] const MappedRanges& mapped() const { return mapped_; }
    [[nodiscard]] const MappedTotals& mapped_totals() const { return mapped_totals_; }
    [[nodiscard]] const MappingLog& mapping_log() const { return mapping_log_; }
    /// Of a range of pages that is mapped now: the bytes of which we know neither a call that has
    /// mapped them nor that they were mapped before. The break begins and ends within a page (of
    /// `page_size` bytes, a power of two), and nobody else has the rest of that.
    [[nodiscard]] std::uint64_t unexplained(AddrRange range, std::uint64_t page_size) const;
    /// Allocations at an address that was still live: their block's free was not seen.
    [[nodiscard]] std::uint64_t missed_frees() const { return missed_frees_; }
    [[nodiscard]] const CallStackAccount& account(StackId id) const;
    [[nodiscard]] Intervals& intervals() { return intervals_; }
    [[nodiscard]] const Intervals& intervals() const { return intervals_; }
    /// Gives the stack its number, if it has none.
    std::uint32_t number(StackId id);

  private:
    void take(const AllocationEvent& event);
    CallStackAccount& account_of(StackId id);
    void begin_block(const AllocationEvent& event);
    /// `freed_at` is kNoStack if it is not known.
    void end_block(BlockId id, MonotonicNs time, StackId freed_at = kNoStack);
    /// Lets the block, whose time has come, expire, and those that should have before.
    void expire_up_to(BlockId id);
    void free_block(const AllocationEvent& event);
    void pass_block(const AllocationEvent& event);
    void on_unseen_alloc(const AllocationEvent& event);
    /// Nobody will know whether it has ended: it is neither live nor freed.
    void untrack_block(BlockId id, MonotonicNs time);
    void count_untracked(const Block& block);
    void forget_freed();
    /// The event ends what is not live: is that known to be wrong? If so it is counted, and told.
    bool is_wrong_end(const AllocationEvent& event, RemoteAddr address);
    [[nodiscard]] std::optional<MemoryError> find_error(RemoteAddr address, bool never_allocated);
    /// Is the live block `id` ended by the right kind of function?
    void check_function(const AllocationEvent& event, BlockId id);
    void report(MemoryError error, const AllocationEvent& event);
    void expire_block(BlockId id);
    void begin_realloc(const AllocationEvent& event);
    void restore_realloc(Tid tid, MonotonicNs time);
    /// True if the old block was one that we knew.
    bool finish_realloc(const AllocationEvent& event);
    void put_back(BlockId id, MonotonicNs time);
    void notify(const Notice& notice);
    /// Counts a block that expires, ...
    void count_expired(StackId stack, std::uint64_t size);
    /// ... or bytes that end, of a block that lives on if it is not `whole`.
    void count_end(StackId stack, std::int64_t age, std::uint64_t size, bool expired, bool whole);

    // tracker_mappings.cpp
    using Pieces = std::vector<MappedRanges::Piece>;
    void begin_unmapping(const MappingEvent& event);
    void begin_mapping(const MappingEvent& event, MemoryKind kind);
    void log_mapping(const MappingEvent& event, MemoryKind kind, AddrRange ended,
                     std::uint64_t known);
    /// True if there was anything.
    bool end_mapped(const Pieces& pieces, MonotonicNs time);
    [[nodiscard]] MemoryKind kind_of(const MappingEvent& event, const Pieces& ended) const;
    bool expire_mappings(MonotonicNs latest, std::size_t budget);
    void expire_mapping(MappingId id);
    void forget_mapped();
    void end_all_mapped(MonotonicNs time);

    Options options_;
    MonotonicNs watermark_ = kAllTold;
    SeenCalls seen_calls_;
    StackTable stacks_;
    LiveBlocks blocks_;
    Intervals intervals_;
    FreedBlocks freed_;
    std::optional<BlockChecker> checker_; ///< with Options::check
    MemoryErrors errors_;
    /// What is freed is not remembered any more, as there are blocks that we do not know of.
    bool sees_all_ = true;
    std::uint64_t allocations_ = 0; ///< of blocks of any kind: memory was given out so many times
    std::vector<CallStackAccount> accounts_; ///< by StackId
    /// Reallocs under way: the old block, which is held out of the table. Whether its address is
    /// wrong is looked up when the call begins: it may not return, and before it does, another
    /// thread may have been given the address, and have freed it.
    struct PendingRealloc {
        std::optional<BlockId> block;
        bool is_wrong = false; ///< the call has been told of as an error
        AllocatedBy by = AllocatedBy::unclear;
        StackId stack = kNoStack;
        std::uint64_t allocations = 0; ///< allocations_ when it began
    };
    absl::flat_hash_map<Tid, PendingRealloc> pending_;
    MappedRanges mapped_;
    MappedRanges mapped_before_; ///< what was there when the watching began, as one mapping
    /// What calls under way are about to end; a signal handler may make one within another.
    struct Unmapping {
        AddrRange named; ///< by the call
        Pieces pieces;
        Pieces before; ///< of mapped_before_
    };
    absl::flat_hash_map<Tid, std::vector<Unmapping>> unmapping_;
    MappingLog mapping_log_;
    MappedTotals mapped_totals_;
    EventCounts events_;
    std::uint64_t missed_frees_ = 0;
    std::vector<Notice> notices_;
    std::uint32_t next_number_ = 1;
    std::uint64_t stacks_expired_ = 0;
};

} // namespace memleax
