// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "held_process.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/supervise/target_request.hpp"

namespace memleax {

/// A process that is being watched, within a request that has stopped all threads. Those that run
/// on for a while have their stops dealt with by the watching, as always.
class WatchedHeap final : public HeldProcess {
  public:
    explicit WatchedHeap(TargetInHand& hand) : target_(hand.target) { note_threads(); }

    [[nodiscard]] Target& target() override { return target_; }
    [[nodiscard]] const std::vector<Tid>& threads() const override { return threads_; }
    void keep_copy(std::shared_ptr<ProcessCopy> copy) override;

  private:
    Result<void> let_run(std::span<const Tid> threads, int us) override;
    void note_threads();

    Target& target_;
    std::vector<Tid> threads_;
};

/// Ends what the tracer keeps for a look, at the latest when this goes. Not in the tracer thread.
class WatchedCopy {
  public:
    /// `is_expected`: a request follows that may make one.
    WatchedCopy(const PerformRequest& perform, bool is_expected)
        : perform_(perform), is_expected_(is_expected) {}
    ~WatchedCopy() { end(); }
    WatchedCopy(const WatchedCopy&) = delete;
    WatchedCopy& operator=(const WatchedCopy&) = delete;

    void set(std::shared_ptr<ProcessCopy> copy) { copy_ = std::move(copy); }
    /// Kills it and waits until it is dead, so that the tracer need not; then that has the process
    /// reap it, as soon as a thread can be stopped without harm. If that takes too long, it does so
    /// when it leaves. Idempotent.
    void end();

  private:
    const PerformRequest& perform_;
    bool is_expected_;
    std::shared_ptr<ProcessCopy> copy_;
};

} // namespace memleax
