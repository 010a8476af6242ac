// SPDX-License-Identifier: GPL-3.0-or-later
/// The second half of leaving: the code is as it was, and now the threads are moved out of what is
/// ours, and that is taken away. The engine does it, or the guardian in its place.
#pragma once

#include <set>
#include <vector>

#include "memleax/breakpoint.hpp"
#include "memleax/stop_event.hpp"
#include "memleax/target.hpp"
#include "memleax/trap_signal.hpp"

namespace memleax {

/// What the one that leaves wants to hear.
class DepartureObserver {
  public:
    virtual ~DepartureObserver() = default;
    /// A thread ran into this breakpoint just before the code was restored.
    virtual void on_late_hit(Tid tid, const arch::Registers& regs,
                             const Breakpoint& breakpoint) = 0;
    virtual void on_thread_gone(const ThreadGone& gone) = 0;
};

class Departure {
  public:
    /// `doubtful`: a signal may have been delivered to a thread whose pc was in a page of ours.
    /// Then pages that a signal frame leads back to are left, and named.
    Departure(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal,
              DepartureObserver& observer, bool doubtful)
        : target_(target), breakpoints_(breakpoints), trap_signal_(trap_signal),
          observer_(observer), doubtful_(doubtful) {}

    void complete();
    /// Did the process end meanwhile?
    [[nodiscard]] bool target_ended() const { return target_ended_; }

  private:
    void collect_threads();
    [[nodiscard]] bool may_sleep_on(Tid tid) const;
    [[nodiscard]] bool is_ours(CodeAddr pc) const;
    void await(std::set<Tid>* awaited);
    void collect(const StopEvent& event, std::set<Tid>* awaited);
    /// Of a TrapStop: was it a breakpoint of ours? Then it is dealt with.
    bool collect_hit(Tid tid);
    /// False if it stands where it cannot be moved from.
    bool move_out(Tid tid);
    Result<Tid> borrow_thread();
    void give_pages_back();
    void let_go();

    Target& target_;
    BreakpointTable& breakpoints_;
    TrapSignal& trap_signal_;
    DepartureObserver& observer_;
    /// To be stopped again, when they have had the time to get out.
    std::vector<Tid> in_handler_;
    bool doubtful_;
    bool target_gone_ = false; ///< it ended, or executes another program
    bool target_ended_ = false;
};

} // namespace memleax
