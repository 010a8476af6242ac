// SPDX-License-Identifier: GPL-3.0-or-later
/// The tracker between two threads: the tracer feeds it, the main thread looks at it.
#pragma once

#include <mutex>
#include <utility>

#include "memleax/tracker.hpp"

namespace memleax {

/// Every event takes the lock for some 100 ns. Whoever holds it otherwise holds up the target, so
/// the main thread takes it for small pieces of work only.
class SharedTracker final : public EventSink {
  public:
    explicit SharedTracker(const Tracker::Options& options) : tracker_(options) {}

    StackId intern(std::span<const FrameAddress> frames, StackEnd end) override {
        const std::lock_guard lock(mutex_);
        return tracker_.intern(frames, end);
    }
    void on_event(const AllocationEvent& event) override {
        const std::lock_guard lock(mutex_);
        tracker_.on_event(event);
    }
    bool wants_free_stack(RemoteAddr address) override {
        const std::lock_guard lock(mutex_);
        return tracker_.wants_free_stack(address);
    }
    bool is_live(RemoteAddr address) override {
        const std::lock_guard lock(mutex_);
        return tracker_.is_live(address);
    }
    void on_code_gone(AddrRange range) override {
        const std::lock_guard lock(mutex_);
        tracker_.on_code_gone(range);
    }
    void on_memory_gone(MonotonicNs time) override {
        const std::lock_guard lock(mutex_);
        tracker_.on_memory_gone(time);
    }
    void on_generation(std::uint32_t generation) override {
        const std::lock_guard lock(mutex_);
        tracker_.on_generation(generation);
    }

    /// Runs `use(Tracker&)` under the lock.
    template <class Use> auto with(Use use) {
        const std::lock_guard lock(mutex_);
        return use(tracker_);
    }

    /// Without the lock: for when the tracer thread has ended.
    Tracker& alone() { return tracker_; }

  private:
    std::mutex mutex_;
    Tracker tracker_;
};

} // namespace memleax
