// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>

#include "leave/threads_at_rest.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/code_barrier.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// Is what was written into the target's code seen by all of its threads?
class SeenByAll {
  public:
    explicit SeenByAll(Target& target) : target_(target), at_rest_(target) {}

    /// For all that was written before; at once, where that can be. `may_rest`: threads are about
    /// to stop, and soon all may have been seen at rest, where a barrier for all CPUs would take
    /// longer.
    void begin(bool may_rest);
    /// Looks who rests, if that is waited for.
    void look();
    /// Also if none has begun.
    [[nodiscard]] bool is_over() const;
    /// Of the barrier that began last, once it is over. Who has waited for rest needs none.
    Result<void> result() { return barrier_.result(); }
    void on_thread_gone(Tid tid) { at_rest_.on_thread_gone(tid); }

  private:
    [[nodiscard]] bool any_runs() const;

    Target& target_;
    CodeBarrier barrier_;
    ThreadsAtRest at_rest_; ///< since begin()
    bool may_rest_ = false;
    std::optional<MonotonicNs> barrier_is_due_; ///< nothing once it has begun
};

} // namespace memleax
