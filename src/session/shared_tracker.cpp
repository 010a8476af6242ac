// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/shared_tracker.hpp"

#include <chrono>

namespace memleax {

template <class Use, class T> T SharedTracker::unless_abandoned(T otherwise, Use use) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    while (!lock.owns_lock()) {
        constexpr std::chrono::milliseconds kLookAround(20);
        if (abandoned_.load()) {
            return otherwise;
        }
        (void)lock.try_lock_for(kLookAround);
    }
    return use(tracker_);
}

StackId SharedTracker::intern(std::span<const FrameAddress> frames, StackEnd end) {
    return unless_abandoned(kNoStack, [&](Tracker& t) { return t.intern(frames, end); });
}

bool SharedTracker::wants_free_stack(RemoteAddr address) {
    return unless_abandoned(false, [&](Tracker& t) { return t.wants_free_stack(address); });
}

bool SharedTracker::is_live(RemoteAddr address) {
    return unless_abandoned(true, [&](Tracker& t) { return t.is_live(address); });
}

void SharedTracker::on_event(const AllocationEvent& event) {
    unless_abandoned(false, [&](Tracker& t) {
        t.on_event(event);
        return true;
    });
}

void SharedTracker::on_code_gone(AddrRange range) {
    unless_abandoned(false, [&](Tracker& t) {
        t.on_code_gone(range);
        return true;
    });
}

void SharedTracker::on_memory_gone(MonotonicNs time) {
    unless_abandoned(false, [&](Tracker& t) {
        t.on_memory_gone(time);
        return true;
    });
}

void SharedTracker::on_generation(std::uint32_t generation) {
    unless_abandoned(false, [&](Tracker& t) {
        t.on_generation(generation);
        return true;
    });
}

void SharedTracker::on_gap(MonotonicNs time) {
    unless_abandoned(false, [&](Tracker& t) {
        t.on_gap(time);
        return true;
    });
}

TrackerSnapshot SharedTracker::snapshot(MonotonicNs now) {
    SnapshotCopier copier(now);
    while (with([&copier](Tracker& tracker) { return copier.copy_some(tracker); })) {
    }
    return copier.take();
}

} // namespace memleax
