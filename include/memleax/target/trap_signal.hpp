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
#include "memleax/target/target.hpp"
#include "memleax/target/trap_action.hpp"
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
/// begins to do so later only the effect is seen: at its first hit if it was born meanwhile, as the
/// workers of thread pools block all signals; else within kHitsBetweenLooks hits, or at the first
/// one after kNsBetweenChecks, and then at each of its own.
///
/// TrapAction has what the target itself has set, and sets meanwhile.
class TrapSignal {
  public:
    TrapSignal(Target& target, TrapHandler& handler)
        : target_(target), handler_(handler), action_(target, handler) {}

    /// Before the first breakpoint is put in, by the stopped thread `worker`.
    Result<void> install(Tid worker);
    /// Takes over what a RecoveryRecord tells of.
    void adopt();
    /// A stopped thread has executed a breakpoint of ours.
    void after_hit(Tid tid) {
        if (--hits_until_look_ <= 0 || !blocking_.empty() || !suspects_.empty() ||
            !newborns_.empty() || monotonic_now().value() >= next_check_) {
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
    [[nodiscard]] TrapAction& action() { return action_; }

    /// When the breakpoints are out: everything as it was. Masks of stopped threads only. After a
    /// failure the handler is in force, and its page must stay.
    Result<void> restore(Tid worker);
    /// Only the masks.
    void restore_masks();
    /// A thread whose mask will have to be put back, for which it must be stopped.
    [[nodiscard]] bool has_changed_mask(Tid tid) const;
    /// After exec nobody catches signals, but those that were ignored stay ignored. `former` is
    /// the id that the thread, stopped in exec, had before.
    void restore_after_exec(Tid tid, Tid former);
    /// After it: the process has nothing of ours any more, and install() may not follow.
    void forget();
    void on_birth(Tid parent, Tid child);
    /// A forked child, stopped at its birth, has its parent's mask: as the parent wants it.
    void restore_mask_in_copy(Tid child);
    void on_thread_gone(Tid tid);

  private:
    static constexpr int kHitsBetweenLooks = 256;
    static constexpr std::int64_t kNsBetweenLooks = kNsPerSecond;
    static constexpr std::int64_t kNsBetweenChecks = 2'000'000;
    /// So many hits are looked at one by one once the handler was found gone.
    static constexpr int kHitsOfSuspicion = 64;

    struct Blocking {
        std::uint64_t mask = 0; ///< as the thread wants it
        bool unblocked = false; ///< SIGTRAP is not blocked in it, at the moment
    };

    /// Has SIGTRAP been taken out of this mask, and nothing else been changed?
    [[nodiscard]] static bool is_mask_without_trap(const Blocking& entry,
                                                   std::optional<std::uint64_t> mask);
    void unblock_threads();
    [[nodiscard]] static bool is_caught(Tid tid);
    void look_after(Tid tid);
    void set_unblocked(Tid tid, Blocking* entry, bool unblocked);

    Target& target_;
    TrapHandler& handler_;
    absl::flat_hash_map<Tid, Blocking> blocking_;
    TrapAction action_;
    bool has_warned_of_pending_ = false;
    std::int64_t next_look_ = 0;        ///< at the action, in monotonic ns
    std::int64_t next_check_ = 0;       ///< whether the handler is there, likewise
    absl::flat_hash_set<Tid> newborns_; ///< threads born meanwhile, until their first hit
    /// Threads whose hits have been found to take the handler away: they block SIGTRAP for a while,
    /// again and again. Each of their hits is looked after.
    absl::flat_hash_set<Tid> suspects_;
    int hits_until_look_ = kHitsBetweenLooks;
    int suspicion_ = 0;
};

} // namespace memleax
