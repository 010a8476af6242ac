// SPDX-License-Identifier: GPL-3.0-or-later
/// What SIGTRAP means in the target: ours while our breakpoints raise it, and as it was again
/// afterwards.
#pragma once

#include <cstdint>
#include <span>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "memleax/error.hpp"
#include "memleax/recovery_record.hpp"
#include "memleax/target.hpp"
#include "memleax/trap_handler.hpp"
#include "memleax/types.hpp"

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
    /// A stopped thread is about to get a SIGTRAP that is not ours. What to deliver: SIGTRAP, or 0
    /// if the target ignores it. One that blocks it finds it pending.
    int before_delivery(Tid tid);
    /// Has the target neither a handler for SIGTRAP nor the wish to ignore it?
    [[nodiscard]] bool is_default() const { return before_.handler == 0; }

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
    /// So many hits are looked at one by one once the handler was found gone.
    static constexpr int kHitsOfSuspicion = 64;

    using Action = RecoveryRecord::SignalAction;
    struct Blocking {
        std::uint64_t mask = 0; ///< as the thread wants it
        bool unblocked = false; ///< SIGTRAP is not blocked in it, at the moment
    };

    void unblock_threads();
    /// Does this thread, with this mask, block SIGTRAP because it is in the target's own handler
    /// for one that it sent itself or for a breakpoint of its own, and only until that returns?
    [[nodiscard]] bool is_in_own_handler(Tid tid, std::uint64_t mask) const;
    [[nodiscard]] bool is_frame_of_own_trap(std::span<const std::byte> frame,
                                            std::uint64_t mask) const;
    [[nodiscard]] bool has_executed_breakpoint(const arch::Registers& regs) const;
    void reinstall(Tid tid);
    [[nodiscard]] bool shares_dispositions(Tid worker) const;
    [[nodiscard]] static bool is_caught(Tid tid);
    void look_after(Tid tid);
    void set_unblocked(Tid tid, Blocking* entry, bool unblocked);
    Result<void> exchange(Tid worker, RemoteMemory& memory, const Action* set, Action* get);

    Target& target_;
    TrapHandler& handler_;
    absl::flat_hash_map<Tid, Blocking> blocking_;
    Action before_{};
    bool installed_ = false;
    /// Threads whose hits have been found to take the handler away: they block SIGTRAP for a while,
    /// again and again. Each of their hits is looked after.
    absl::flat_hash_set<Tid> suspects_;
    int hits_until_look_ = kHitsBetweenLooks;
    int suspicion_ = 0;
};

} // namespace memleax
