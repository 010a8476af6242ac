// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "held_process.hpp"
#include "memleax/supervise/target_request.hpp"

namespace memleax {

/// A process that is being watched, within a request that has stopped all threads. Those that run
/// on for a while have their stops dealt with by the watching, as always.
class WatchedHeap final : public HeldProcess {
  public:
    explicit WatchedHeap(TargetInHand& hand) : target_(hand.target) { note_threads(); }

    [[nodiscard]] Target& target() override { return target_; }
    [[nodiscard]] const std::vector<Tid>& threads() const override { return threads_; }
    Result<void> run_on(std::span<const Tid> threads, int us) override;

  private:
    void note_threads();

    Target& target_;
    std::vector<Tid> threads_;
};

} // namespace memleax
