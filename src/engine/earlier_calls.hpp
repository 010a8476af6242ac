// SPDX-License-Identifier: GPL-3.0-or-later
/// Calls that were under way when the watching began. Each may still give a block of which nobody
/// knows, where another one has been freed meanwhile: its end would look like a second free of that
/// one. So nothing is said of second frees until each thread has been seen outside of such calls.
#pragma once

#include <utility>
#include <vector>

#include "leave/page_references.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "thread_rounds.hpp"

namespace memleax {

class EarlierCalls {
  public:
    /// They must outlive this.
    EarlierCalls(Target& target, const ModuleMap& modules, UnwinderSource unwinder)
        : target_(target), modules_(modules), unwinder_(std::move(unwinder)) {}

    /// These functions give blocks, and are watched from now on; all threads are to be seen.
    void begin(std::vector<AddrRange> functions);
    /// It has run into a breakpoint of ours that stands where none of those calls is under way.
    void on_hit(Tid tid) { forget(tid); }
    void forget(Tid tid) { unseen_.erase(tid); }
    void forget_all() { unseen_.clear(); }
    /// Looks at those that sleep, or compute, unless it has done so a moment ago. Takes some
    /// milliseconds at most: of thousands of threads, the next time at those that were left; and a
    /// twentieth of the time, less if nothing comes of it.
    void look();
    /// May one still be under way?
    [[nodiscard]] bool any() const { return !unseen_.empty(); }

  private:
    static constexpr std::int64_t kShortestPauseNs = 4'000'000;

    [[nodiscard]] bool is_outside(Tid tid);
    [[nodiscard]] bool sleeps_outside(Tid tid, const KernelState& kernel);

    Target& target_;
    const ModuleMap& modules_;
    UnwinderSource unwinder_;
    std::vector<AddrRange> functions_;
    ThreadRounds unseen_;
    std::int64_t pause_ns_ = kShortestPauseNs;
    MonotonicNs next_look_;
    ComputingThreads computing_;
};

} // namespace memleax
