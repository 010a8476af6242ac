// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/shared_tracker.hpp"

#include <algorithm>

namespace memleax {

std::unique_lock<AbandonableMutex> SharedTracker::lock_unless_abandoned() {
    if (mutex_.lock_unless(abandoned_)) {
        return {mutex_, std::adopt_lock};
    }
    return {mutex_, std::defer_lock};
}

StackId SharedTracker::intern(std::span<const FrameAddress> frames, StackEnd end) {
    const auto lock = lock_unless_abandoned();
    return lock ? tracker_.intern(frames, end) : kNoStack;
}

bool SharedTracker::wants_free_stack(RemoteAddr address) {
    const auto lock = lock_unless_abandoned();
    return lock && tracker_.wants_free_stack(address);
}

bool SharedTracker::is_live(RemoteAddr address) {
    const auto lock = lock_unless_abandoned();
    return !lock || tracker_.is_live(address);
}

std::size_t SharedTracker::on_events(std::span<const AllocationEvent> events) {
    const auto lock = lock_unless_abandoned();
    return lock ? tracker_.on_events(events) : events.size();
}

void SharedTracker::on_watermark(MonotonicNs time) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_watermark(time);
    }
}

void SharedTracker::on_seen_calls(const SeenCalls& calls) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_seen_calls(calls);
    }
}

void SharedTracker::on_own_mapping(AddrRange range) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_own_mapping(range);
    }
}

void SharedTracker::on_earlier_calls(bool any) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_earlier_calls(any);
    }
}

void SharedTracker::on_mapping(const MappingEvent& event) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_mapping(event);
    }
}

void SharedTracker::on_mapped_before(std::span<const AddrRange> ranges) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_mapped_before(ranges);
    }
}

void SharedTracker::on_page_faults(std::span<const PageFault> faults) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_page_faults(faults);
    }
}

void SharedTracker::on_fault_counts(const FaultCounts& since_before) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_fault_counts(since_before);
    }
}

void SharedTracker::on_faults_told(MonotonicNs until) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_faults_told(until);
    }
}

void SharedTracker::on_resident_before(MonotonicNs time,
                                       const std::optional<ResidentMemory>& memory) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_resident_before(time, memory);
    }
}

void SharedTracker::on_resident_after(const std::optional<ResidentMemory>& memory) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_resident_after(memory);
    }
}

void SharedTracker::on_probe(std::string_view name) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_probe(name);
    }
}

void SharedTracker::on_probe_hit(const ProbeHit& hit) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_probe_hit(hit);
    }
}

void SharedTracker::on_code_gone(AddrRange range) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_code_gone(range);
    }
}

void SharedTracker::on_memory_gone(MonotonicNs time) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_memory_gone(time);
    }
}

void SharedTracker::on_generation(std::uint32_t generation) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_generation(generation);
    }
}

void SharedTracker::on_gap(MonotonicNs time) {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_gap(time);
    }
}

void SharedTracker::on_process_ended() {
    if (const auto lock = lock_unless_abandoned()) {
        tracker_.on_process_ended();
    }
}

TrackerSnapshot SharedTracker::snapshot(MonotonicNs now) {
    SnapshotCopier copier(with([now](Tracker& tracker) { return tracker.delivered_until(now); }));
    while (with([&copier](Tracker& tracker) { return copier.copy_some(tracker); })) {
    }
    return copier.take();
}

} // namespace memleax
