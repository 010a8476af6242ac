// SPDX-License-Identifier: GPL-3.0-or-later
/// What SIGTRAP means in the target: ours while our breakpoints raise it, and as it was again
/// afterwards.
#pragma once

#include <cstdint>
#include <optional>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_handler.hpp"

namespace memleax {

/// As long as there are breakpoints in the target, TrapHandler is its SIGTRAP handler. We see every
/// SIGTRAP before the target does, so it runs only for what is the target's own, and hands that on;
/// and for our hits after our death.
///
/// A breakpoint in a thread that blocks SIGTRAP makes the kernel unblock the signal in that thread
/// and set the process's disposition to the default, before the tracer sees anything
/// (kernel/signal.c, force_sig_info_to_task): then a later hit would kill it, were it not for us.
/// So such threads stay unblocked until we leave, and the handler is put back after such a hit. A
/// thread is known to block SIGTRAP if it did when we came, or if its creator did. Of one that
/// begins to do so later only the effect is seen, within kHitsBetweenLooks hits, and then at each
/// of its own.
///
/// The target may set another action meanwhile. The engine has a breakpoint at the C library's
/// sigaction(3), by which signal(3) and its like go, and calls follow_change(): ours stays in
/// force, and the target sees its own only. A system call that is made elsewhere is found out at
/// the next SIGTRAP of the target's own, at a hit about a second later, in a forked child, or when
/// we leave.
class TrapSignal {
  public:
    TrapSignal(Target& target, TrapHandler& handler) : target_(target), handler_(handler) {}

    /// Before the first breakpoint is put in, by the stopped thread `worker`.
    Result<void> install(Tid worker);
    /// Takes over what a RecoveryRecord tells of.
    void adopt();
    /// A stopped thread has executed a breakpoint of ours.
    void after_hit(Tid tid) {
        if (--hits_until_look_ <= 0 || !blocking_.empty() || !suspects_.empty()) {
            look_after(tid);
        }
    }
    struct Delivery {
        int signal = 0; ///< SIGTRAP, or 0 if the target ignores it
        /// The original code must be back before: the signal ends the process, and dumps core; or
        /// it stays pending in a thread that blocks it, where a hit of ours would take its place.
        bool needs_own_code = false;
    };
    /// A stopped thread is about to get a SIGTRAP that is not ours. What to deliver. One that
    /// blocks it finds it pending.
    Delivery before_delivery(Tid tid);
    /// A stopped thread has come to the entry of the C library's sigaction(3) for SIGTRAP, with
    /// these registers but for the pc. Learns what it sets, tells it what was set before, and
    /// leaves nothing for the function to do but to return 0: whenever we die, either the thread
    /// has not begun or the action is in the record. False: only follow_change() can do that.
    bool answer_call(Tid tid, CodeAddr entry, arch::Registers* regs);
    /// A stopped thread is about to make rt_sigaction(2) for SIGTRAP, within a few instructions:
    /// lets it, learns what it sets, and hides from it that ours was there. Afterwards the thread
    /// is stopped, or its next stop has been put aside, or it is gone.
    void follow_change(Tid tid);
    /// May the target have kept our handler's address, to put it back some day? Then its page must
    /// stay.
    [[nodiscard]] bool may_be_saved() const;

    /// When the breakpoints are out: everything as it was. Masks of stopped threads only. After a
    /// failure the handler is in force, and its page must stay.
    Result<void> restore(Tid worker);
    /// A thread whose mask will have to be put back, for which it must be stopped.
    [[nodiscard]] bool has_changed_mask(Tid tid) const;
    /// A forked child has a copy of the disposition, and not of the handler's page.
    void restore_in_copy(Tid child);
    /// After exec nobody catches signals, but those that were ignored stay ignored. `former` is
    /// the id that the thread, stopped in exec, had before.
    void restore_after_exec(Tid tid, Tid former);
    void on_birth(Tid parent, Tid child);
    void on_thread_gone(Tid tid);

  private:
    static constexpr int kHitsBetweenLooks = 256;
    static constexpr std::int64_t kNsBetweenLooks = kNsPerSecond;
    /// So many hits are looked at one by one once the handler was found gone.
    static constexpr int kHitsOfSuspicion = 64;

    using Action = RecoveryRecord::SignalAction;
    struct Blocking {
        std::uint64_t mask = 0; ///< as the thread wants it
        bool unblocked = false; ///< SIGTRAP is not blocked in it, at the moment
    };

    void unblock_threads();
    void reinstall(Tid tid);
    [[nodiscard]] bool shares_dispositions(Tid worker) const;
    [[nodiscard]] static bool is_caught(Tid tid);
    void look_after(Tid tid);
    void set_unblocked(Tid tid, Blocking* entry, bool unblocked);
    /// By a stopped thread of the target.
    Result<void> exchange(Tid tid, const Action* set, Action* get);
    [[nodiscard]] bool is_set_by_target(const Action& action) const;
    void set_action(const Action& action);
    void note_unseen_change(const Action& now);
    /// The action that the target has set, for the process of this stopped thread. Finds out if it
    /// has set another one without our seeing it, and puts ours back in its place.
    Action look_at_action(Tid tid);

    Target& target_;
    TrapHandler& handler_;
    absl::flat_hash_map<Tid, Blocking> blocking_;
    Action action_{}; ///< as the target has set it
    bool installed_ = false;
    bool told_of_pending_ = false;
    std::optional<Action> saved_by_target_; ///< what ours stood for when it was first replaced
    std::int64_t next_look_ = 0;            ///< at the action, in monotonic ns
    /// By vfork, which have set an action themselves.
    absl::flat_hash_set<Tid> children_with_own_action_;
    /// Threads whose hits have been found to take the handler away: they block SIGTRAP for a while,
    /// again and again. Each of their hits is looked after.
    absl::flat_hash_set<Tid> suspects_;
    int hits_until_look_ = kHitsBetweenLooks;
    int suspicion_ = 0;
};

} // namespace memleax
