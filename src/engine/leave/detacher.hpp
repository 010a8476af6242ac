// SPDX-License-Identifier: GPL-3.0-or-later
/// The second half of leaving: the code is the target's own, and now the threads are moved out of
/// what is ours, and that is taken away. The engine does it, or the guardian in its place.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "forked_copy.hpp"
#include "lock_holders.hpp"
#include "memleax/proc/blocking_descriptors.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/trap_signal.hpp"
#include "page_references.hpp"

namespace memleax {

/// What the one that leaves wants to hear.
class DetachObserver {
  public:
    virtual ~DetachObserver() = default;
    /// A thread ran into this breakpoint just before the code was restored.
    virtual void on_late_hit(Tid tid, const arch::Registers& regs,
                             const Breakpoint& breakpoint) = 0;
    virtual void on_thread_gone(const ThreadGone& gone) = 0;
};

class Detacher {
  public:
    /// `may_be_referenced`: a signal may have been delivered to a thread whose pc was in a page of
    /// ours. Then pages that a signal frame leads back to are left, and named.
    /// `unwinder` tells whether they do.
    Detacher(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal,
             DetachObserver& observer, bool may_be_referenced, UnwinderSource unwinder)
        : target_(target), breakpoints_(breakpoints), trap_signal_(trap_signal),
          own_(breakpoints.own_codes()), observer_(observer), may_be_referenced_(may_be_referenced),
          unwinder_(std::move(unwinder)) {}

    /// To be called when the code is restored.
    void complete();
    /// Did the process end meanwhile?
    [[nodiscard]] bool target_ended() const { return target_ended_; }
    /// What is known already of those that run.
    void set_computing(const ComputingThreads& computing) { computing_ = computing; }
    /// Pages as they were, for copies that come when the process's memory is gone.
    void set_known_pages(const OwnPages& pages) { known_pages_ = pages; }
    /// Somebody may be in them who cannot be stopped.
    void keep_pages() { any_missed_ = true; }
    /// A page that nobody has written down what it is for; it goes with the others.
    void unmap_too(AddrRange page) { unknown_page_ = page; }

  private:
    static constexpr int kPauseMs = 1; ///< while others go on
    /// Then those who have stopped run on.
    static constexpr unsigned kMostEventsAtOnce = 256;
    /// After so many pauses in which no thread stopped, those we wait for are looked at again.
    static constexpr int kPausesBetweenLooks = 20;
    /// And after so long without one less to wait for, the others are left where they are (frozen,
    /// say, or waiting for a page from a dead disk).
    static constexpr std::int64_t kMostMsWithoutProgress = 5000;
    /// Between two looks at a thread that has to get out by itself: twice as long each time, as the
    /// handler that it is in gets nowhere while it is interrupted (fork begins anew then).
    static constexpr int kLongestPauseMs = 64;

    void let_calls_end();
    void run_on(const std::set<Tid>& inside);
    /// Job control has stopped them, or had before: of those whom the ones inside may wait for,
    /// each goes on for a moment, and is stopped again.
    void run_lock_holders_on(const std::set<Tid>& inside);
    void stop_lock_holders();
    void ask_listening_lock_holders();
    void collect_threads();
    /// Or who has stopped by itself meanwhile, and will once more.
    [[nodiscard]] std::set<Tid> threads_to_stop();
    /// Of a thread that is out of what is ours: need it not be stopped for anything else?
    [[nodiscard]] bool is_done_with(Tid tid) const;
    /// Those that have stopped, and need not stay so.
    void let_go_on();
    enum class Verdict { leave_alone, look_again, sleeps_inside, awaits_signal, stop };
    /// By one look at it.
    [[nodiscard]] Verdict judge(Tid tid);
    /// Until these have stopped, or need not be waited for; or none has for so long that the pages
    /// have to stay. What becomes, after a while, of those that are out of what is ours?
    enum class Settled { stay, go_on };
    void await(std::set<Tid>* awaited, Settled settled = Settled::stay);
    void look_whether_out();
    [[nodiscard]] bool sleeps_uninterruptibly(const KernelState& kernel) const;
    void stop_awaiting_sleepers(std::set<Tid>* awaited);
    void collect(const StopEvent& event, std::set<Tid>* awaited);
    /// Of a TrapStop: was it a breakpoint of ours? Then it is dealt with.
    bool collect_hit(Tid tid);
    /// A signal of the target's, to a thread that is in no code of ours: it stops behind.
    bool deliver(Tid tid);
    /// In one that was made in pages of ours.
    [[nodiscard]] bool is_in_call(Tid tid, RemoteAddr sp) const;
    /// By a return address, or a signal frame that is in use for certain.
    [[nodiscard]] bool will_be_back(Tid tid, RemoteAddr sp) const;
    enum class Whereabouts {
        outside,     ///< or it has been moved there
        in_our_code, ///< our handler, or the agent: both are short
        to_come_back ///< a handler of the target's, or the allocator, returns to our code
    };
    Whereabouts move_out(Tid tid);
    /// A thread that has stopped: may it stay so until it is let go of? Else it runs on. A signal
    /// that comes to it in our code is held back until it is out.
    bool is_settled(Tid tid);
    Result<Tid> borrow_thread();
    [[nodiscard]] bool can_be_borrowed(Tid tid);
    /// Who waits for a child by vfork comes when that has gone on; who is about to get a signal can
    /// be borrowed when it has got it.
    void let_others_go_on();
    void give_pages_back();
    Result<void> unmap_pages(Tid worker);
    void let_go();
    /// As soon as there is room; after a while, the user is told.
    void send_late(std::vector<ThreadSignals::Late> late);
    /// Those that have stopped by themselves. False: the target is gone.
    bool collect_stopped();
    void detach_stopped();
    /// What is, or was until just now, ours in the target and in copies of it.
    [[nodiscard]] OwnPages own_pages();
    [[nodiscard]] bool may_be_forking(Tid tid);
    void clean_last_copies();

    Target& target_;
    BreakpointTable& breakpoints_;
    TrapSignal& trap_signal_;
    OwnCodes& own_;
    DetachObserver& observer_;
    /// To be stopped again, when they have had the time to do so.
    std::set<Tid> to_get_out_;
    int pauses_since_look_ = 0;
    int pauses_until_look_ = 1;
    std::set<Tid> are_out_; ///< the code is whole: they will not get in again
    std::set<Tid> in_group_stop_;
    LockHolders lock_holders_{target_, breakpoints_};
    std::set<Tid> run_on_for_others_; ///< for a moment, although in a group-stop
    AddrRange unknown_page_{};
    OwnPages known_pages_;          ///< as long as they are there
    std::optional<OwnPages> pages_; ///< as they were before they went
    ComputingThreads computing_;
    BlockingDescriptors descriptors_{target_.pid()};
    std::set<Tid> stopped_to_see_; ///< whether they are about to fork
    bool may_be_referenced_;
    UnwinderSource unwinder_;
    bool any_missed_ = false;  ///< somebody who may stand in a page of ours could not be stopped
    bool target_gone_ = false; ///< it ended, or executes another program
    bool target_ended_ = false;
};

} // namespace memleax
