// SPDX-License-Identifier: GPL-3.0-or-later
/// Has each thread of a target been seen to rest, stopped or asleep, since a moment? Then no CPU
/// has anything decoded of the code as it was before that moment, as each has switched threads
/// since; so a barrier for all CPUs (CodeBarrier), which waits for the same, need not be waited
/// for.
#pragma once

#include <set>

#include "../thread_rounds.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class ThreadsAtRest {
  public:
    /// The target must outlive this.
    explicit ThreadsAtRest(Target& target) : target_(target) {}

    /// The moment is now. A thread that is born later begins in the kernel.
    void begin();
    /// Looks at those that have not been seen to rest, for a few milliseconds at most.
    void look();
    /// It was stopped, and runs on: it has to be seen to rest once more.
    void on_resumed(Tid tid);
    void on_thread_gone(Tid tid);

    /// Since begin().
    [[nodiscard]] bool all_rest() const { return begun_ && unseen_.empty() && !any_is_expected(); }
    /// Likewise, but for threads that compute, which can be stopped without harm
    /// (ComputingThreads).
    [[nodiscard]] bool all_but_computing_rest() const;
    /// What is known of those that run.
    [[nodiscard]] const ComputingThreads& computing() const { return computing_; }

  private:
    [[nodiscard]] bool any_is_expected() const { return !target_.expected_children().empty(); }
    [[nodiscard]] bool rests(Tid tid) const;
    void note_if_computing(Tid tid, bool runs);

    Target& target_;
    ThreadRounds unseen_;
    std::set<Tid> compute_; ///< of these
    ComputingThreads computing_;
    bool begun_ = false;
};

} // namespace memleax
