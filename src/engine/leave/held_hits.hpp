// SPDX-License-Identifier: GPL-3.0-or-later
/// While a process is about to be left: who comes to a watched function stays there, until the
/// code is whole. So threads that allocate stop by themselves, where a stop does no harm, and leave
/// the CPUs to those that have to be waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/target/target.hpp"
#include "threads_at_rest.hpp"

namespace memleax {

/// Nobody is to stand still for longer than this for the sake of others who have to be waited for.
/// Threads that allocate all stop within it; where others compute, leaving takes longer.
inline constexpr std::int64_t kMostStandingNs = 6'000'000;

class HeldHits {
  public:
    /// The target must outlive this.
    explicit HeldHits(Target& target) : target_(target), others_(target) {}

    /// From now on; not of a process with so many threads that a look at each takes long.
    void begin();
    [[nodiscard]] bool is_on() const { return is_on_; }
    /// Of a thread that has hit a breakpoint at a function's entry, and whose pc is in its slot.
    void hold(Tid tid);
    /// When all that the process has recorded by now has been read: time begins with the first
    /// look, as until then threads wait for room in their rings, and could come to no function.
    void look();
    /// While is_on(): this stop of a thread has been dealt with. If it runs on, it is waited for,
    /// though it may have been seen at the stop: on its way back from one that the agent has asked
    /// for, say.
    void after_stop(Tid tid);
    void on_thread_gone(Tid tid);
    /// Is there nobody left to wait for, before the code goes back? Also when time is up: the
    /// threads have waited for long enough.
    [[nodiscard]] bool is_over() const;
    /// Need leaving wait for nobody who may keep it for long?
    [[nodiscard]] bool may_stay() const { return others_.all_but_computing_rest(); }
    /// Whoever is held, and is not any more.
    [[nodiscard]] std::vector<Tid> release();
    [[nodiscard]] const ComputingThreads& computing() const { return others_.computing(); }

  private:
    Target& target_;
    ThreadsAtRest others_;
    std::vector<Tid> held_;
    std::optional<MonotonicNs> first_look_;
    bool is_on_ = false;
};

} // namespace memleax
