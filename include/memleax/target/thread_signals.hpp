// SPDX-License-Identifier: GPL-3.0-or-later
/// The signals of stopped threads that are not delivered in the kernel's own time: let through
/// first, held back, sent again.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/stop_event.hpp"

namespace memleax {

class Target;

/// Those of one process. What a thread has not got yet is owed to it in the RecoveryRecord. Signals
/// of one number keep their order, and those that do not queue (signal(7)) are one.
class ThreadSignals {
  public:
    ThreadSignals(Target& target, RecoveryRecord& record) : target_(target), record_(record) {}

    /// A signal that was taken out of its stop, with its payload. While no room is for it
    /// (RLIMIT_SIGPENDING) it is held back, and stays owed.
    void send_again(Tid tid, const siginfo_t& info);
    /// A thread that stands in a signal's stop is to go on without it. It stays owed to it. False:
    /// there are too many already, or it has no handler for it, so that it need not wait, and must
    /// not if it stops: a SIGCONT that comes meanwhile would not end what comes behind it.
    bool hold(Tid tid);
    /// Have signals been held back from any thread?
    [[nodiscard]] bool any_held() const { return !held_.empty(); }
    /// Sends one of the signals that were held back from a thread, unless one of its number is
    /// about to stop the thread anyway, and is given in that one's place, or there is no room for
    /// it now. False if there is none.
    bool send_held(Tid tid);
    /// Has it one pending that it does not block?
    [[nodiscard]] static bool is_about_to_stop(Tid tid) { return about_to_stop(tid) != 0; }
    /// Is one that was sent again still to come to this thread, if only when it does not block that
    /// any more (its handler returns)? Before that it must not be let go of: younger ones may be in
    /// front of it, and are to be given later.
    [[nodiscard]] bool awaits_sent(Tid tid) const;
    /// Has one been held back from this thread that does not come too early now?
    [[nodiscard]] bool has_timely_held(Tid tid);
    /// send_held() to all of them, but for those that stand where they are to have gone on first.
    void send_held_to_running();
    /// With what tells whether its thread is still the same, and the program, too.
    struct Late {
        Tid tid;
        siginfo_t info;
        Tid group;
        std::uint64_t start_time;
        bool was_caught;
    };
    /// All of them, to whomever they belong, as their threads are about to be let go of: those of a
    /// thread that is stopped come before what was queued for it with a value since. Gives
    /// back those for which there is no room: they are the caller's.
    [[nodiscard]] std::vector<Late> send_all_held();
    /// Those of them for which there is room now, also to threads that have been let go of. The
    /// rest stays in `late`, and owed. No thread that gets one is to stand in a stop.
    void send_late(std::vector<Late>* late);
    /// Between two tries: some microseconds, so that who fills each place at once does not win all.
    static void wait_for_room();
    /// These do not reach their threads. The user is told.
    static void give_up(const std::vector<Late>& late);

    /// If it stands in a QuietStop and has a signal pending that it does not block, lets it run
    /// into that signal's stop, which next_event() tells of in place of the other.
    void advance_to(Tid tid);
    /// Lets a stopped thread, whose stop stands in line, run on with its signal for a moment.
    void let_run_on(Tid tid);
    /// Resumes it with the signal that it is stopped for, if any; it stops in a QuietStop, or by
    /// the signal's effect, before it executes anything else (its handler's first instruction).
    void go_past_signal(Tid tid);
    /// Lets it get the signal that it is stopped for, and stops it again before it executes
    /// anything else; puts that stop aside for next_event(). False if it is gone.
    bool deliver_first(Tid tid);

    /// Would the handler of this signal begin before the last one's has executed anything? The
    /// kernel delivers a signal, and looks for the next, before the thread goes on. Where a handler
    /// does not block its signal (SA_NODEFER) and signals come faster than stops are served, frame
    /// would be put upon frame until the stack is full. For a second at most, should the handler
    /// wait for just that signal.
    [[nodiscard]] bool comes_too_early(Tid tid, int signal);
    /// One that goes on after a signal that came too early: its next stop, if that follows at once.
    /// A signal that is pending already would come too early as well; served in its turn, again and
    /// again, they would keep the thread from going on.
    std::optional<StopEvent> next_stop_at_once(Tid tid);

    // For the Target:
    /// It is to go on with this signal. What it gets now; what it has not got is owed to it as
    /// before.
    int on_resume(Tid tid, int signal);
    /// It is stopped for a signal, and gets the oldest one of its number.
    void on_signal_stop(Tid tid, int signal) {
        if (!sent_.empty() || !held_.empty()) {
            give_oldest(tid, signal);
        }
    }
    /// Has its process a handler for this signal? 0: no.
    [[nodiscard]] static bool is_caught(Tid tid, int signal);
    /// Is its process stopped by it?
    [[nodiscard]] static bool stops(Tid tid, int signal);
    /// It executes another program, which has no handlers. Those of the old one would have been
    /// called before: what was held back, or is on its way, is not for the new one.
    void on_exec(Tid tid);
    void forget(Tid tid) {
        of_former_.erase(tid);
        sent_.erase(tid);
        held_.erase(tid);
        unbegun_.erase(tid);
    }

  private:
    /// The kernel's SIGRTMIN; the C library's first one that others may use is higher.
    static constexpr int kFirstQueuedSignal = 32;
    using Signals = std::vector<siginfo_t>; ///< the oldest first
    /// Where a thread stands that has a handler to begin.
    struct Unbegun {
        CodeAddr pc{};
        RemoteAddr sp{};
        MonotonicNs since{};
    };

    /// Signals that were sent again, and have not come yet. Another of that number may come first,
    /// and is then given what is due.
    struct Sent {
        Signals on_their_way; ///< what they look like when they come
        Signals due;
    };

    /// False: there is no room, and it is owed as before.
    bool send(Tid tid, const siginfo_t& info);
    bool send(Tid tid, Tid group, const siginfo_t& info);
    void note_late(const std::vector<Late>& late);
    /// The signals that it will be stopped with as soon as it goes on.
    [[nodiscard]] static std::uint64_t about_to_stop(Tid tid);
    [[nodiscard]] static bool is_still_for(const Late& late);
    void give_oldest(Tid tid, int signal);
    /// Takes what a stopped thread has in its queue of the numbers that have been held back from
    /// it, and adds it to those. `own` is what it is stopped for, and is given with its detach, or
    /// sent again before all others. Nothing is taken where that could do harm.
    void take_younger(Tid tid, Signals* own, Signals* held);
    [[nodiscard]] bool can_take_younger(Tid tid, std::uint64_t numbers) const;
    void note_owed(Tid tid, const Signals& own, const Signals& held);
    /// Was it sent again to the program that this thread executed before?
    [[nodiscard]] bool is_of_former(Tid tid, int signal);
    /// The first that is due of this number, if one is.
    std::optional<siginfo_t> exchange_for_sent(Tid tid, Sent* sent, const siginfo_t& now);
    /// One that was held back, in place of this one, which waits in its stead; if there is one.
    std::optional<siginfo_t> exchange_for_held(Tid tid, const siginfo_t& now);
    /// Is it at a handler of this signal that has not begun, or at one that has interrupted one?
    [[nodiscard]] bool is_at_unbegun_handler(const arch::Registers& regs, int signal);

    Target& target_;
    RecoveryRecord& record_;
    absl::flat_hash_map<Tid, Sent> sent_;
    absl::flat_hash_map<Tid, Signals> held_;
    absl::flat_hash_map<Tid, Signals>
        of_former_; ///< sent again, before an exec; what they look like
    absl::flat_hash_map<Tid, Unbegun> unbegun_;
};

} // namespace memleax
