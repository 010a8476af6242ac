// SPDX-License-Identifier: GPL-3.0-or-later
/// SIGTRAP's action in the target (sigaction(2)): TrapHandler's is in force, and the target sees
/// and gets back its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <absl/container/flat_hash_set.h>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_handler.hpp"

namespace memleax {

/// The target may set another action meanwhile. The engine has a breakpoint at sigaction(3), by
/// which signal(3) and its like go, and calls answer_call() or follow_change(): ours stays in
/// force, and the target sees its own only. A system call that is made elsewhere is found out by
/// look(), in a forked child, or when we leave.
class TrapAction {
  public:
    using Action = RecoveryRecord::SignalAction;
    static constexpr std::uint64_t kDefault = 0; ///< SIG_DFL
    static constexpr std::uint64_t kIgnore = 1;  ///< SIG_IGN

    TrapAction(Target& target, TrapHandler& handler) : target_(target), handler_(handler) {}

    /// Puts ours in force, by the stopped thread `worker`; the handler is mapped.
    Result<void> install(Tid worker);
    /// Takes over what a RecoveryRecord tells of.
    void adopt();
    /// Has ours been put in force? (The kernel may have taken it away since.)
    [[nodiscard]] bool installed() const { return installed_; }
    /// As the target has set it.
    [[nodiscard]] const Action& wanted() const { return wanted_; }
    /// The address of ours, once it has been in force; else kDefault.
    [[nodiscard]] std::uint64_t our_handler() const { return our_handler_; }
    /// Is called when the target has set another one, before who has set it goes on.
    void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
    /// Does it have the target's actions? A child by vfork shares the memory, and not what signals
    /// do.
    [[nodiscard]] bool is_shared_by(Tid tid) const;

    /// Ours again, by a stopped thread.
    void reinstall(Tid tid);
    /// `action` is in force in the process of this stopped thread until somebody sets another one.
    void put_in_force(Tid tid, const Action& action);
    /// The target has set this one by a call that we have seen.
    void set_wanted(const Action& action);
    /// The target has set this one by a call that we have not seen; ours is put back.
    void on_unseen_change(Tid tid, const Action& action);
    /// The action that the target has set, for the process of this stopped thread. Finds out if it
    /// has set another one without our seeing it.
    Action look(Tid tid);

    /// A stopped thread has come to the entry of the C library's sigaction(3) for SIGTRAP, with
    /// these registers but for the pc. Learns what it sets, tells it what was set before, and
    /// leaves nothing for the function to do but to return 0: whenever we die, either the thread
    /// has not begun or the action is in the record. False: only follow_change() can do that.
    bool answer_call(Tid tid, CodeAddr entry, arch::Registers* regs);
    /// A stopped thread is about to make rt_sigaction(2) for SIGTRAP, within a few instructions:
    /// lets it, learns what it sets, and hides from it that ours was there. Afterwards the thread
    /// is stopped, or its next stop has been put aside, or it is gone.
    void follow_change(Tid tid);

    /// The target's own, by the stopped thread `worker`. After a failure ours is in force.
    Result<void> restore(Tid worker);
    /// A forked child, or a new program, has a copy of the action, and not of the handler's page. A
    /// child may have been made before restore() and be told of only now.
    void restore_in_copy(Tid child, RemoteMemory& memory, std::span<const RemoteCall> also = {});
    /// After exec nobody catches signals, but those that were ignored stay ignored. `former` is
    /// the id that the thread, stopped in exec, had before.
    void restore_after_exec(Tid tid, Tid former);
    /// It is not in force: the process executes another program.
    void forget();
    void on_thread_gone(Tid tid) { children_with_own_action_.erase(tid); }

  private:
    /// By a stopped thread of the target.
    Result<void> exchange(Tid tid, const Action* set, Action* get);
    [[nodiscard]] bool is_ours(const Action& action) const;
    [[nodiscard]] bool is_set_by_target(const Action& action) const;
    void note_unseen_change(const Action& now);

    Target& target_;
    TrapHandler& handler_;
    std::function<void()> changed_;
    Action wanted_{};
    bool installed_ = false;
    std::uint64_t our_handler_ = kDefault;  ///< its address, also when it has gone
    std::optional<Action> saved_by_target_; ///< what ours stood for when it was first replaced
    /// By vfork, which have set an action themselves.
    absl::flat_hash_set<Tid> children_with_own_action_;
};

} // namespace memleax
