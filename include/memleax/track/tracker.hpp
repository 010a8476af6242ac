// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of a session: live blocks, and what each call stack has allocated, freed, let
/// expire.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/track/error_account.hpp"
#include "memleax/track/event_counts.hpp"
#include "memleax/track/fault_account.hpp"
#include "memleax/track/intervals.hpp"
#include "memleax/track/live_blocks.hpp"
#include "memleax/track/mapping_account.hpp"
#include "memleax/track/memory_error.hpp"
#include "memleax/track/notice_queue.hpp"
#include "memleax/track/probe_account.hpp"
#include "memleax/track/stack_accounts.hpp"
#include "memleax/track/stack_table.hpp"

namespace memleax {

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
    /// Its parts know each other.
    Tracker(const Tracker&) = delete;
    Tracker& operator=(const Tracker&) = delete;

    StackId intern(std::span<const FrameAddress> frames, StackEnd end) override;
    std::size_t on_events(std::span<const AllocationEvent> events) override;
    void on_watermark(MonotonicNs time) override { watermark_ = time; }
    void on_seen_calls(const SeenCalls& calls) override { seen_calls_ = calls; }
    [[nodiscard]] const SeenCalls& seen_calls() const { return seen_calls_; }
    void on_mapping(const MappingEvent& event) override {
        if (event.call != MappingCall::madvise) { // what is mapped stays
            mappings_.on_mapping(event);
        }
        faults_.on_mapping(event);
    }
    void on_mapped_before(std::span<const AddrRange> ranges) override {
        mappings_.on_mapped_before(ranges);
    }
    void on_own_mapping(AddrRange range) override { mappings_.on_own_mapping(range); }
    void on_earlier_calls(bool any) override { errors_.on_earlier_calls(any); }
    void on_page_faults(std::span<const PageFault> faults) override {
        faults_.on_page_faults(faults);
    }
    void on_fault_counts(const FaultCounts& since_before) override {
        faults_.on_fault_counts(since_before);
    }
    void on_faults_told(MonotonicNs until) override { faults_.on_faults_told(until); }
    void on_resident_before(MonotonicNs time,
                            const std::optional<ResidentMemory>& memory) override {
        faults_.on_resident_before(time, memory);
    }
    void on_resident_after(const std::optional<ResidentMemory>& memory) override {
        faults_.on_resident_after(memory);
    }
    void on_probe(std::string_view name) override { probes_.on_probe(name); }
    void on_probe_hit(const ProbeHit& hit) override { probes_.on_hit(hit); }
    bool wants_free_stack(RemoteAddr address) override;
    bool is_live(RemoteAddr address) override { return blocks_.find(address).has_value(); }
    void on_code_gone(AddrRange range) override {
        stacks_.on_code_gone(range);
        faults_.on_code_gone(range);
    }
    void on_memory_gone(MonotonicNs time) override;
    void on_generation(std::uint32_t generation) override { stacks_.set_generation(generation); }
    /// There will be no more events, and what only they need goes. All that can be asked stays.
    void on_process_ended() { errors_.on_process_ended(); }

    /// `now`, or the latest time before it of which all has been told.
    [[nodiscard]] MonotonicNs delivered_until(MonotonicNs now) const {
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
    std::vector<Notice> take_notices() { return notices_.take(); }
    [[nodiscard]] bool has_notices() const { return !notices_.empty(); }
    /// Sets all live blocks aside, as untracked: frees were missed. To be called at the end of a
    /// time without breakpoints, before they are put in again. If intervals are being recorded,
    /// they start anew. One pass over all blocks.
    void forget_live(MonotonicNs now);
    void on_gap(MonotonicNs time) override { forget_live(time); }
    /// When blocks were set aside last: of one that is not live since then, nobody knows whether it
    /// was freed.
    [[nodiscard]] std::optional<MonotonicNs> set_aside_at() const { return set_aside_at_; }
    /// When the process executed another program last.
    [[nodiscard]] std::optional<MonotonicNs> memory_gone_at() const { return memory_gone_at_; }
    /// From now on blocks expire at this age. Those that have expired stay so.
    void set_expire_ns(std::int64_t expire_ns) {
        options_.expire_ns = expire_ns;
        mappings_.set_expire_ns(expire_ns);
    }

    /// Takes no more memory than what can be asked. To be called after on_process_ended(), by
    /// whoever reads the tables piece by piece: blocks get other numbers.
    void compact() {
        blocks_.compact();
        mappings_.forget_mapped_before();
    }

    [[nodiscard]] StackTable& stacks() { return stacks_; }
    [[nodiscard]] const StackTable& stacks() const { return stacks_; }
    [[nodiscard]] const LiveBlocks& blocks() const { return blocks_; }
    [[nodiscard]] const EventCounts& events() const { return events_; }
    [[nodiscard]] const std::vector<MemoryError>& errors() const { return errors_.all(); }
    [[nodiscard]] const MappedRanges& mapped() const { return mappings_.ranges(); }
    [[nodiscard]] const MappedTotals& mapped_totals() const { return mappings_.totals(); }
    [[nodiscard]] const FaultAccount& faults() const { return faults_; }
    [[nodiscard]] const ProbeAccount& probes() const { return probes_; }
    [[nodiscard]] const MappingLog& mapping_log() const { return mappings_.log(); }
    /// Of a range of pages that is mapped now: the bytes of which we know neither a call that has
    /// mapped them nor that they were mapped before. The break begins and ends within a page (of
    /// `page_size` bytes, a power of two), and nobody else has the rest of that.
    [[nodiscard]] std::uint64_t unexplained(AddrRange range, std::uint64_t page_size) const {
        return mappings_.unexplained(range, page_size);
    }
    /// Allocations at an address that was still live: their block's free was not seen.
    [[nodiscard]] std::uint64_t missed_frees() const { return missed_frees_; }
    [[nodiscard]] const CallStackAccount& account(StackId id) const { return accounts_.find(id); }
    [[nodiscard]] Intervals& intervals() { return intervals_; }
    [[nodiscard]] const Intervals& intervals() const { return intervals_; }
    /// Gives the stack its number, if it has none.
    std::uint32_t number(StackId id) { return accounts_.number(id); }

  private:
    /// False: not taken, for `if_live`.
    bool take(const AllocationEvent& event);
    void add_block(const AllocationEvent& event);
    /// `freed_at` is kNoStack if it is not known.
    void remove_block(BlockId id, MonotonicNs time, StackId freed_at = kNoStack);
    /// Lets the block, whose time has come, expire, and those that should have before.
    void expire_up_to(BlockId id);
    bool free_block(const AllocationEvent& event); ///< likewise
    void pass_block(const AllocationEvent& event);
    void on_unseen_alloc(const AllocationEvent& event);
    /// Nobody will know whether it has ended: it is neither live nor freed.
    void untrack_block(BlockId id, MonotonicNs time);
    void expire_block(BlockId id);
    void begin_realloc(const AllocationEvent& event);
    void restore_realloc(Tid tid, MonotonicNs time);
    /// True if the old block was one that we knew.
    bool finish_realloc(const AllocationEvent& event);
    void put_back(BlockId id, MonotonicNs time);

    Options options_;
    MonotonicNs watermark_ = kAllDelivered;
    SeenCalls seen_calls_;
    EventCounts events_;
    StackTable stacks_;
    NoticeQueue notices_;
    StackAccounts accounts_;
    LiveBlocks blocks_;
    Intervals intervals_;
    MappingAccount mappings_;
    ErrorAccount errors_;
    FaultAccount faults_;
    ProbeAccount probes_;
    std::uint64_t allocations_ = 0; ///< of blocks of any kind: memory was given out so many times
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
    std::uint64_t missed_frees_ = 0;
    std::optional<MonotonicNs> set_aside_at_;
    std::optional<MonotonicNs> memory_gone_at_;
};

} // namespace memleax
