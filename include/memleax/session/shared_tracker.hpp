// SPDX-License-Identifier: GPL-3.0-or-later
/// The tracker between two threads: the tracer feeds it, the main thread looks at it.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "memleax/base/abandonable_mutex.hpp"
#include "memleax/track/tracker.hpp"
#include "memleax/track/tracker_snapshot.hpp"

namespace memleax {

/// Every batch of events takes the lock, for some 100 ns each. Whoever holds it otherwise holds up
/// the target, so the main thread takes it for small pieces of work only.
class SharedTracker final : public EventSink, public StackInterner, public AccountQueries {
  public:
    /// `abandoned` is set when the thread that holds the lock may never let go of it, as it has
    /// crashed: events are thrown away from then on, so that the tracer can still leave.
    SharedTracker(const Tracker::Options& options, const std::atomic<bool>& abandoned)
        : abandoned_(abandoned), tracker_(options) {}

    StackId intern(std::span<const FrameAddress> frames, StackEnd end) override;
    std::size_t on_events(std::span<const AllocationEvent> events) override;
    void on_watermark(MonotonicNs time) override;
    void on_own_mapping(AddrRange range) override;
    void on_earlier_calls(bool any) override;
    void on_seen_calls(const SeenCalls& calls) override;
    void on_mapping(const MappingEvent& event) override;
    void on_mapped_before(std::span<const AddrRange> ranges) override;
    void on_page_faults(std::span<const PageFault> faults) override;
    void on_fault_counts(const FaultCounts& since_before) override;
    void on_faults_told(MonotonicNs until) override;
    void on_resident_before(MonotonicNs time, const std::optional<ResidentMemory>& memory) override;
    void on_resident_after(const std::optional<ResidentMemory>& memory) override;
    void on_probe(std::string_view name) override;
    void on_probe_hit(const ProbeHit& hit) override;
    bool wants_free_stack(RemoteAddr address) override;
    bool is_live(RemoteAddr address) override;
    void on_code_gone(AddrRange range) override;
    void on_memory_gone(MonotonicNs time) override;
    void on_generation(std::uint32_t generation) override;
    void on_gap(MonotonicNs time) override;
    void on_process_ended();

    /// Runs `use(Tracker&)` under the lock.
    template <class Use> auto with(Use use) {
        const std::lock_guard lock(mutex_);
        return use(tracker_);
    }
    /// In many small pieces.
    [[nodiscard]] TrackerSnapshot snapshot(MonotonicNs now);
    /// Calls `each(const Block&)` for every block, many times under the lock for a short while.
    template <class Each> void for_each_block(Each each) {
        constexpr std::uint32_t kBlocksAtOnce = 4096;
        std::uint32_t end = 0;
        do {
            const std::uint32_t begin = end;
            end = with([&](Tracker& tracker) {
                const std::uint32_t stop = std::min(begin + kBlocksAtOnce, tracker.blocks().used());
                tracker.blocks().for_each(begin, stop, each);
                return stop == tracker.blocks().used() ? 0 : stop;
            });
        } while (end != 0);
    }
    /// What is left of mappings, as blocks: one for each range.
    template <class Each> void for_each_range(Each each) {
        with([&](Tracker& tracker) {
            for (const MappedRanges::Piece& piece : tracker.mapped().pieces()) {
                const MappedMemory& memory = tracker.mapped()[piece.value];
                each(Block{RemoteAddr(piece.range.begin), piece.range.size(), memory.time,
                           memory.stack, memory.tid, memory.expired});
            }
        });
    }

  private:
    /// For events. Without the lock once abandoned, if somebody has it.
    std::unique_lock<AbandonableMutex> lock_unless_abandoned();

    AbandonableMutex mutex_;
    const std::atomic<bool>& abandoned_;
    Tracker tracker_;
};

} // namespace memleax
