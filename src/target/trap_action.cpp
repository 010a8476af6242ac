// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/trap_action.hpp"

#include <csignal>
#include <span>
#include <utility>

#include <sys/syscall.h>

#include "library_action.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "remote_action.hpp"
#include "target_parts.hpp"
#include "trap_frame.hpp"

namespace memleax {

void TrapAction::forget() {
    installed_ = false;
    saved_by_target_.reset();
    children_with_own_action_.clear();
}

Result<void> TrapAction::install(Tid worker) {
    forget();
    auto done = exchange(worker, nullptr, &wanted_);
    if (!done) {
        return done;
    }
    set_wanted(wanted_);
    target_.record().handler_in_force.store(1);
    installed_ = true;
    const Action ours = handler_.action(wanted_);
    our_handler_ = ours.handler;
    Action replaced{};
    done = exchange(worker, &ours, &replaced);
    if (done && replaced != wanted_) { // another thread has set it just now
        set_wanted(replaced);
        reinstall(worker);
    }
    return done;
}

void TrapAction::adopt() {
    const RecoveryRecord& record = target_.record();
    wanted_ = record.target_action();
    installed_ = record.handler_in_force.load() != 0;
    our_handler_ = installed_ ? handler_.action(wanted_).handler : kDefault;
}

bool TrapAction::is_shared_by(Tid tid) const {
    const auto it = target_.threads().find(tid);
    return it != target_.threads().end() && !it->second.is_child_process;
}

void TrapAction::reinstall(Tid tid) {
    const Action ours = handler_.action(wanted_);
    const auto put = exchange(tid, &ours, nullptr);
    if (!put) {
        log_debug("SIGTRAP's handler: {}", put.error().message());
    }
}

Result<void> TrapAction::exchange(Tid tid, const Action* set, Action* get) {
    return exchange_trap_action(target_, tid, target_.memory(), set, get);
}

void TrapAction::put_in_force(Tid tid, const Action& action) {
    (void)exchange(tid, &action, nullptr);
}

bool TrapAction::is_ours(const Action& action) const {
    return our_handler_ != kDefault && action.handler == our_handler_;
}

// What is neither ours, nor the target's that we know, nor the default. The default may be the
// kernel's work (force_sig), and the target's own only if it was set by a system call that nobody
// saw: it is taken for the former.
bool TrapAction::is_set_by_target(const Action& action) const {
    return action.handler != kDefault && action != wanted_ && !is_ours(action);
}

void TrapAction::set_wanted(const Action& action) {
    wanted_ = action;
    target_.record().set_target_action(action);
    if (const auto chained = handler_.chain_to(action); !chained) {
        log_debug("SIGTRAP's handler: {}", chained.error().message());
    }
    if (changed_) {
        changed_();
    }
}

void TrapAction::note_unseen_change(const Action& now) {
    if (target_.record().handler_may_be_saved.exchange(1) == 0) {
        saved_by_target_ = wanted_;
    }
    set_wanted(now);
}

void TrapAction::on_unseen_change(Tid tid, const Action& action) {
    note_unseen_change(action);
    reinstall(tid);
}

TrapAction::Action TrapAction::look(Tid tid) {
    Action now{};
    if (!exchange(tid, nullptr, &now) || !is_set_by_target(now)) {
        return wanted_;
    }
    if (is_shared_by(tid)) {
        log_debug("thread {}: SIGTRAP's action {:#x} (flags {:#x}) was set by a system call that "
                  "was not seen",
                  tid.value(), now.handler, now.flags);
        on_unseen_change(tid, now);
    }
    return now;
}

bool TrapAction::answer_call(Tid tid, CodeAddr entry, arch::Registers* regs) {
    if (!installed_ || !is_shared_by(tid)) {
        return false;
    }
    const RemoteAddr set_at(arch::argument(*regs, 1));
    const RemoteAddr told_at(arch::argument(*regs, 2));
    look(tid); // else what was set without our seeing it would be taken for newer than this
    Action set = wanted_;
    if (set_at.value() != 0) {
        const auto wanted = read_library_action(target_.memory(), set_at, entry);
        if (!wanted || is_ours(*wanted)) {
            return false;
        }
        set = *wanted;
    }
    if (told_at.value() != 0 && !write_library_action(target_.memory(), told_at, wanted_)) {
        return false;
    }
    if (set_at.value() != 0) {
        put_in_force(tid, handler_.action(set)); // with the flags of this one
        set_wanted(set);
    }
    arch::set_argument(*regs, 1, 0);
    arch::set_argument(*regs, 2, 0);
    return true;
}

namespace {

/// What rt_sigaction(2)'s argument points to; nothing for a null pointer, or where there is none.
std::optional<TrapAction::Action> read_action(RemoteMemory& memory, std::uint64_t at) {
    return at != 0 ? memory.try_read_object<TrapAction::Action>(RemoteAddr(at)) : std::nullopt;
}

void write_action(RemoteMemory& memory, std::uint64_t at, const TrapAction::Action& action) {
    if (const auto written = memory.write_object(RemoteAddr(at), action); !written) {
        log_debug("SIGTRAP's action at {:#x}: {}", at, written.error().message());
    }
}

} // namespace

void TrapAction::follow_change(Tid tid) {
    if (!installed_) {
        return;
    }
    const bool shared = is_shared_by(tid);
    std::atomic<std::uint32_t>& may_be_saved = target_.record().handler_may_be_saved;
    const Action before = wanted_;
    const std::uint32_t was_saved = may_be_saved.load();
    std::optional<Action> set;
    const auto enter = [&](const SystemCallMade& call) {
        if (!shared) {
            return;
        }
        may_be_saved.store(1); // until what the kernel tells it of ours has been corrected
        set = read_action(target_.memory(), call.arguments[1]);
        if (set && !is_ours(*set)) {
            set_wanted(*set);
            write_action(target_.memory(), call.arguments[1], handler_.action(*set));
        } else {
            set.reset();
        }
    };
    const auto call =
        target_.parts().stepper.follow_system_call(tid, SYS_rt_sigaction, SIGTRAP, enter);
    if (!call) {
        may_be_saved.store(was_saved);
        return;
    }
    // The kernel has told it of ours, which is nobody's business, and gone when we have left.
    const auto replaced =
        call->result == 0 ? read_action(target_.memory(), call->arguments[2]) : std::nullopt;
    if (set) {
        write_action(target_.memory(), call->arguments[1], *set);
    }
    if (replaced) { // both may be in the same place
        write_action(target_.memory(), call->arguments[2],
                     is_set_by_target(*replaced) ? *replaced : before);
    }
    may_be_saved.store(was_saved);
    if (call->result != 0 && set) {
        set_wanted(before);
    } else if (call->result == 0 && !shared && call->arguments[1] != 0) {
        children_with_own_action_.insert(tid);
    }
}

void TrapAction::restore_in_copy(Tid child, RemoteMemory& memory,
                                 std::span<const RemoteCall> also) {
    if (!installed_) {
        const auto info = our_handler_ != kDefault ? try_read_process_info(child) : std::nullopt;
        if (!info || (info->caught_signals & kTrapBit) == 0) { // a copy of what had been put back
            if (!also.empty()) {
                (void)target_.system_calls_in_copy(child, memory, also);
            }
            return;
        }
    }
    Action now{};
    auto put = exchange_trap_action(target_, child, memory, &wanted_, &now, also);
    if (put && is_set_by_target(now)) {
        put = exchange_trap_action(target_, child, memory, &now, nullptr);
    }
    if (!put) {
        log_debug("SIGTRAP's disposition in child {}: {}", child.value(), put.error().message());
    }
}

Result<void> TrapAction::restore(Tid worker) {
    if (!installed_) {
        return {};
    }
    if (!is_shared_by(worker)) {
        return Error("SIGTRAP's handler stays: all wait for a child that shares the memory");
    }
    Action now{};
    // A thread that is about to get a SIGTRAP that the target ignores: the system call would end
    // with a step, whose SIGTRAP the kernel forces, and which would take that action away again.
    if (wanted_.handler == kIgnore && target_.stop_signal(worker) == SIGTRAP &&
        !StoppedThread(worker).is_breakpoint_trap() && exchange(worker, nullptr, &now) &&
        !is_set_by_target(now)) {
        target_.drop_stop_signal(worker);
    }
    auto put = exchange(worker, &wanted_, &now);
    if (put && is_set_by_target(now)) {
        note_unseen_change(now);
        put = exchange(worker, &now, nullptr);
    }
    if (!put) {
        return std::move(put).error().while_doing("SIGTRAP's handler could not be put back");
    }
    installed_ = false;
    target_.record().handler_in_force.store(0);
    if (handler_.may_be_saved()) {
        // Called from what the target has kept, it does what it did then, and has no slots.
        handler_.forget_regions();
        (void)handler_.chain_to(saved_by_target_.value_or(wanted_));
    }
    return {};
}

void TrapAction::restore_after_exec(Tid tid, Tid former) {
    if (installed_ && wanted_.handler == kIgnore && !children_with_own_action_.contains(former)) {
        if (auto memory = RemoteMemory::open(tid)) { // else it was killed
            restore_in_copy(tid, *memory);
        }
    }
}

} // namespace memleax
