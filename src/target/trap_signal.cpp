// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/trap_signal.hpp"

#include <csignal>
#include <span>
#include <utility>

#include <sys/syscall.h>

#include "library_action.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "remote_action.hpp"
#include "trap_frame.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kTrapBit = signal_bit(SIGTRAP);
constexpr std::uint64_t kDefault = 0; // SIG_DFL
constexpr std::uint64_t kIgnore = 1;  // SIG_IGN
constexpr std::uint64_t kOneShot = static_cast<std::uint32_t>(SA_RESETHAND);

} // namespace

Result<void> TrapSignal::install(Tid worker) {
    blocking_.clear();
    suspects_.clear();
    saved_by_target_.reset();
    children_with_own_action_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        const auto info = try_read_process_info(tid);
        if (info && (info->blocked_signals & kTrapBit) != 0) {
            blocking_.emplace(tid, Blocking{info->blocked_signals, false});
            target_.record().set_blocking(tid, info->blocked_signals, false);
        }
    }
    auto done = handler_.map(worker);
    if (!done) {
        return done;
    }
    if (!shares_dispositions(worker)) {
        log_debug("SIGTRAP's handler: only a child that shares the memory can be stopped");
        return {};
    }
    done = exchange(worker, nullptr, &action_);
    if (!done) {
        return done;
    }
    set_action(action_);
    target_.record().handler_in_force.store(1);
    installed_ = true;
    const Action ours = handler_.action(action_);
    Action replaced{};
    done = exchange(worker, &ours, &replaced);
    if (done && replaced != action_) { // another thread has set it just now
        set_action(replaced);
        reinstall(worker);
    }
    next_look_ = monotonic_now().value() + kNsBetweenLooks;
    unblock_threads();
    return done;
}

void TrapSignal::adopt() {
    const RecoveryRecord& record = target_.record();
    action_ = record.target_action();
    installed_ = record.handler_in_force.load() != 0;
    for (const auto& entry : record.blocking) {
        if (entry.tid == 0) {
            break;
        }
        // The kernel may have unblocked it, and nobody lived to note that; or it is in our handler,
        // where everything is blocked.
        const Tid tid(entry.tid);
        const auto info = try_read_process_info(tid);
        const bool untouched = info && info->blocked_signals == entry.mask;
        blocking_.emplace(tid, Blocking{entry.mask, !untouched});
    }
}

// The others are unblocked by the kernel when they run into a breakpoint. Each hit that is spared
// that is one fewer moment without a handler.
void TrapSignal::unblock_threads() {
    std::vector<Tid> all;
    for (const auto& [tid, entry] : blocking_) {
        all.push_back(tid);
    }
    for (const Tid tid : all) {
        const auto it = blocking_.find(tid);
        const bool stopped = target_.minds_no_stop(tid) && target_.stop_and_defer(tid) &&
                             !target_.has_temporary_mask(tid);
        const auto mask = stopped ? target_.signal_mask(tid) : std::nullopt;
        if ((mask && (*mask & kTrapBit) == 0) ||
            is_in_trap_handler(target_, tid, mask.value_or(it->second.mask), action_)) {
            // It has not blocked it for good, and is not to find it blocked when we have left.
            on_thread_gone(tid);
        } else if (mask == it->second.mask) {
            // Else it has changed its mask since: one in pthread_create or fork has by now.
            set_unblocked(tid, &it->second, true);
            target_.set_signal_mask(tid, it->second.mask & ~kTrapBit);
        }
    }
}

bool TrapSignal::is_caught(Tid tid) {
    const auto info = try_read_process_info(tid);
    return !info || (info->caught_signals & kTrapBit) != 0;
}

// A child by vfork shares the memory, and not what signals do.
bool TrapSignal::shares_dispositions(Tid worker) const {
    const auto it = target_.threads().find(worker);
    return it != target_.threads().end() && !it->second.is_child_process;
}

void TrapSignal::reinstall(Tid tid) {
    const Action ours = handler_.action(action_);
    const auto put = exchange(tid, &ours, nullptr);
    if (!put) {
        log_debug("SIGTRAP's handler: {}", put.error().message());
    }
}

Result<void> TrapSignal::exchange(Tid tid, const Action* set, Action* get) {
    return exchange_trap_action(target_, tid, target_.memory(), set, get);
}

// What is neither ours, nor the target's that we know, nor the default. The default may be the
// kernel's work (force_sig), and the target's own only if it was set by a system call that nobody
// saw: it is taken for the former.
bool TrapSignal::is_set_by_target(const Action& action) const {
    return action.handler != kDefault && action != action_ &&
           action.handler != handler_.action(action_).handler;
}

void TrapSignal::set_action(const Action& action) {
    action_ = action;
    target_.record().set_target_action(action);
    if (const auto chained = handler_.chain_to(action); !chained) {
        log_debug("SIGTRAP's handler: {}", chained.error().message());
    }
}

void TrapSignal::note_unseen_change(const Action& now) {
    if (target_.record().handler_may_be_saved.exchange(1) == 0) {
        saved_by_target_ = action_;
    }
    set_action(now);
}

TrapSignal::Action TrapSignal::look_at_action(Tid tid) {
    Action now{};
    if (!exchange(tid, nullptr, &now) || !is_set_by_target(now)) {
        return action_;
    }
    if (shares_dispositions(tid)) {
        log_debug("thread {}: SIGTRAP's action {:#x} (flags {:#x}) was set by a system call that "
                  "was not seen",
                  tid.value(), now.handler, now.flags);
        note_unseen_change(now);
        reinstall(tid);
    }
    return now;
}

bool TrapSignal::answer_call(Tid tid, CodeAddr entry, arch::Registers* regs) {
    arch::Registers now{};
    if (!installed_ || !shares_dispositions(tid) || !target_.get_registers(tid, &now)) {
        return false;
    }
    const RemoteAddr set_at(arch::argument(now, 1));
    const RemoteAddr told_at(arch::argument(now, 2));
    Action set = action_;
    if (set_at.value() != 0) {
        const auto wanted = read_library_action(target_.memory(), set_at, entry);
        if (!wanted || wanted->handler == handler_.action(action_).handler) {
            return false;
        }
        set = *wanted;
    }
    if (told_at.value() != 0 && !write_library_action(target_.memory(), told_at, action_)) {
        return false;
    }
    if (set_at.value() != 0) {
        set_action(set);
    }
    for (arch::Registers* each : {&now, regs}) {
        arch::set_argument(*each, 1, 0);
        arch::set_argument(*each, 2, 0);
    }
    target_.set_registers(tid, now);
    return true;
}

void TrapSignal::follow_change(Tid tid) {
    const bool shared = shares_dispositions(tid);
    const auto call = target_.follow_system_call(tid, SYS_rt_sigaction, SIGTRAP);
    if (!installed_ || !call || call->result != 0) {
        return;
    }
    // The kernel has told it of ours, which is nobody's business, and gone when we have left.
    const RemoteAddr replaced(call->arguments[2]);
    Action told{};
    if (replaced.value() != 0 &&
        target_.memory().try_read(replaced, std::as_writable_bytes(std::span(&told, 1))) ==
            sizeof told &&
        !is_set_by_target(told)) {
        (void)target_.memory().write(
            replaced, std::span(reinterpret_cast<const std::uint8_t*>(&action_), sizeof action_));
    }
    if (call->arguments[1] == 0) {
        return;
    }
    if (!shared) {
        children_with_own_action_.insert(tid);
        return;
    }
    // Two threads that do this come here one after the other, and the last one is right.
    Action set{};
    if (target_.memory().try_read(RemoteAddr(call->arguments[1]),
                                  std::as_writable_bytes(std::span(&set, 1))) == sizeof set &&
        set.handler != handler_.action(action_).handler) {
        set_action(set);
        reinstall(tid);
    }
}

void TrapSignal::set_unblocked(Tid tid, Blocking* entry, bool unblocked) {
    entry->unblocked = unblocked;
    target_.record().set_blocking(tid, entry->mask, unblocked);
}

void TrapSignal::on_birth(Tid parent, Tid child) {
    const auto it = blocking_.find(parent);
    if (it != blocking_.end()) {
        const Blocking inherited = it->second;
        const auto added = blocking_.emplace(child, inherited).first;
        set_unblocked(child, &added->second, inherited.unblocked);
    }
}

void TrapSignal::on_thread_gone(Tid tid) {
    suspects_.erase(tid);
    children_with_own_action_.erase(tid);
    if (blocking_.erase(tid) != 0) {
        target_.record().forget_blocking(tid);
    }
}

void TrapSignal::look_after(Tid tid) {
    bool gone = false;
    const auto it = blocking_.find(tid);
    if (it != blocking_.end() && !it->second.unblocked) {
        set_unblocked(tid, &it->second, true);
        gone = true;
    } else if (hits_until_look_ <= 0 || suspects_.contains(tid)) {
        gone = !is_caught(tid);
        if (gone && suspicion_ > 0) {
            suspects_.insert(tid); // it was there at the last hit
        } else if (gone) {
            suspicion_ = kHitsOfSuspicion;
        }
        hits_until_look_ = suspicion_ > 0 ? 1 : kHitsBetweenLooks;
        suspicion_ -= suspicion_ > 0 ? 1 : 0;
        const std::int64_t now = monotonic_now().value();
        if (installed_ && !gone && now > next_look_) {
            next_look_ = now + kNsBetweenLooks;
            look_at_action(tid);
        }
    }
    if (gone && installed_) {
        reinstall(tid);
    }
}

TrapSignal::Delivery TrapSignal::before_delivery(Tid tid) {
    if (!installed_) {
        return {SIGTRAP, action_.handler == kDefault};
    }
    const bool forced = target_.is_breakpoint_trap(tid); // the kernel unblocks what it forces
    const auto it = blocking_.find(tid);
    const bool blocks = it != blocking_.end() && it->second.unblocked &&
                        target_.signal_mask(tid) == (it->second.mask & ~kTrapBit);
    if (blocks && !forced) {
        // With the mask back the kernel, about to deliver it, queues it anew (ptrace_signal).
        set_unblocked(tid, &it->second, false);
        target_.set_signal_mask(tid, it->second.mask);
        const bool is_default = action_.handler == kDefault;
        if (is_default && !std::exchange(told_of_pending_, true)) {
            log_warning("thread {} blocks SIGTRAP, and one is pending: the breakpoints are taken "
                        "out, as they would take its place; nothing is counted from now on",
                        tid.value());
        }
        return {SIGTRAP, is_default};
    }
    // By /proc if it can be told: a remote call here would hold the signal up, and if we died then
    // the guardian would have to send it anew.
    const auto info = try_read_process_info(tid);
    const bool caught = !info || (info->caught_signals & kTrapBit) != 0;
    Action action = action_;
    if (info && (info->ignored_signals & kTrapBit) != 0) {
        action = {kIgnore, 0, 0, 0};
        if (shares_dispositions(tid)) {
            note_unseen_change(action);
            reinstall(tid);
        }
    } else if (caught && !action_.has_handler()) {
        action = look_at_action(tid);
    }
    if (action.handler == kIgnore && !forced) {
        return {0, false};
    }
    if (!action.has_handler() || blocks) {
        const Action fatal{kDefault, action.flags, action.restorer, action.mask};
        (void)exchange(tid, &fatal, nullptr);
        return {SIGTRAP, true};
    }
    if ((action.flags & kOneShot) != 0) {
        // The kernel calls this one itself, and puts the default in its place. The next hit
        // finds ours gone.
        (void)exchange(tid, &action, nullptr);
        if (shares_dispositions(tid)) {
            set_action(Action{kDefault, action.flags, action.restorer, action.mask});
            hits_until_look_ = 1;
        }
    } else if (!caught) {
        reinstall(tid); // a hit in a thread that blocks SIGTRAP has just taken it away
    }
    return {SIGTRAP, false};
}

bool TrapSignal::has_changed_mask(Tid tid) const {
    const auto it = blocking_.find(tid);
    return it != blocking_.end() && it->second.unblocked;
}

Result<void> TrapSignal::restore(Tid worker) {
    for (auto& [tid, entry] : blocking_) {
        // With any other difference than the bit that was cleared the thread has set a mask of its
        // own since, and whether SIGTRAP was in it cannot be known.
        if (entry.unblocked && target_.is_stopped(tid) && !target_.has_temporary_mask(tid) &&
            target_.signal_mask(tid) == (entry.mask & ~kTrapBit)) {
            target_.set_signal_mask(tid, entry.mask);
            set_unblocked(tid, &entry, false);
        }
    }
    if (!installed_) {
        return {};
    }
    if (!shares_dispositions(worker)) {
        return Error("SIGTRAP's handler stays: all wait for a child that shares the memory");
    }
    Action now{};
    // A thread that is about to get a SIGTRAP that the target ignores: the system call would end
    // with a step, whose SIGTRAP the kernel forces, and which would take that action away again.
    if (action_.handler == kIgnore && target_.stop_signal(worker) == SIGTRAP &&
        !target_.is_breakpoint_trap(worker) && exchange(worker, nullptr, &now) &&
        !is_set_by_target(now)) {
        target_.drop_stop_signal(worker);
    }
    auto put = exchange(worker, &action_, &now);
    if (put && is_set_by_target(now)) {
        note_unseen_change(now);
        put = exchange(worker, &now, nullptr);
    }
    if (!put) {
        return std::move(put).error().while_doing("SIGTRAP's handler could not be put back");
    }
    installed_ = false;
    target_.record().handler_in_force.store(0);
    if (may_be_saved()) {
        // Called from what the target has kept, it does what it did then, and has no slots.
        handler_.forget_regions();
        (void)handler_.chain_to(saved_by_target_.value_or(action_));
    }
    return {};
}

bool TrapSignal::may_be_saved() const {
    return target_.record().handler_may_be_saved.load() != 0;
}

void TrapSignal::restore_in_copy(Tid child) {
    if (!installed_) {
        return;
    }
    auto memory = RemoteMemory::open(child);
    if (!memory) {
        return; // killed
    }
    Action now{};
    auto put = exchange_trap_action(target_, child, *memory, &action_, &now);
    if (put && is_set_by_target(now)) {
        put = exchange_trap_action(target_, child, *memory, &now, nullptr);
    }
    if (!put) {
        log_debug("SIGTRAP's disposition in child {}: {}", child.value(), put.error().message());
    }
}

void TrapSignal::restore_after_exec(Tid tid, Tid former) {
    const auto it = blocking_.find(former);
    if (it != blocking_.end() && it->second.unblocked) {
        target_.set_signal_mask(tid, it->second.mask);
    }
    if (installed_ && action_.handler == kIgnore && !children_with_own_action_.contains(former)) {
        restore_in_copy(tid);
    }
}

} // namespace memleax
