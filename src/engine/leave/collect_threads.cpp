// SPDX-License-Identifier: GPL-3.0-or-later
// Detacher: how each thread that has to stop gets out of what is ours.
#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include <poll.h>

#include "detacher.hpp"
#include "held_hits.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/vfork.hpp"
#include "page_references.hpp"

namespace memleax {

void Detacher::collect_threads() {
    std::set<Tid> awaited = threads_to_stop();
    // A thread that blocks SIGTRAP is to be stopped although it sleeps. Its call comes first.
    std::set<Tid> asleep;
    std::copy_if(awaited.begin(), awaited.end(), std::inserter(asleep, asleep.end()),
                 [this](Tid tid) { return trap_signal_.has_changed_mask(tid); });
    for (const Tid tid : target_.borrower().wait_out_transfers(asleep)) {
        log_warning("thread {} would have a transfer cut short, and is left as it is: SIGTRAP, "
                    "which it had blocked, stays unblocked",
                    tid.value());
        awaited.erase(tid);
    }
    for (const Tid tid : awaited) {
        if (!target_.is_stopped(tid)) { // by itself, meanwhile
            target_.interrupt(tid);
        }
    }
    await(&awaited, Settled::go_on);
}

void Detacher::await(std::set<Tid>* awaited, Settled settled) {
    const auto missing = [&] { return awaited->size() + target_.expected_children().size(); };
    Patience patience(kMostMsWithoutProgress);
    const std::int64_t begun = monotonic_now().value();
    std::size_t fewest = missing();
    for (int idle = 0; !target_gone_;) {
        if (const auto event = target_.next_event(Target::Wait::poll)) {
            collect(*event, awaited);
            idle = 0;
            if (missing() < fewest) {
                fewest = missing();
                patience.begin_anew();
            }
        } else if (missing() == 0) {
            return;
        } else {
            // Not a blocking wait: a thread that has gone to sleep uninterruptibly (vfork, a dead
            // file server) would keep us for ever, and need not be waited for.
            poll(nullptr, 0, kPauseMs);
            look_whether_out();
            if (settled == Settled::go_on && monotonic_now().value() - begun > kMostStandingNs) {
                let_go_on();
            }
            if (++idle % kPausesBetweenLooks == 0) {
                stop_awaiting_sleepers(awaited);
            }
        }
        if (patience.is_over()) {
            for (const Tid tid : *awaited) {
                if (trap_signal_.has_changed_mask(tid)) {
                    log_warning("thread {} cannot be stopped now, and is left as it is: SIGTRAP, "
                                "which it had blocked, stays unblocked",
                                tid.value());
                }
                const auto kernel = try_read_kernel_state(target_.pid(), tid);
                const bool is_out =
                    are_out_.contains(tid) || (kernel && sleeps_uninterruptibly(*kernel));
                any_missed_ = any_missed_ || !is_out;
                log_debug("thread {} {}", tid.value(),
                          is_out ? "blocks a signal that it is to get in its turn"
                                 : "does not get out of pages of ours");
            }
            return;
        }
    }
}

void Detacher::look_whether_out() {
    if (!to_get_out_.empty() && ++pauses_since_look_ >= pauses_until_look_) {
        pauses_since_look_ = 0;
        pauses_until_look_ = std::min(2 * pauses_until_look_, kLongestPauseMs / kPauseMs);
        for (const Tid tid : std::exchange(to_get_out_, {})) {
            target_.interrupt(tid);
        }
    }
}

// In no code of ours. It stops as soon as it wakes up.
bool Detacher::sleeps_uninterruptibly(const KernelState& kernel) const {
    return kernel.state == 'D' && kernel.system_call && !own_.contains(kernel.pc);
}

// Most of these sleeps are short, as mprotect's beside a fork, and who has to get its mask back is
// waited for. Not in vfork: its child may live for long.
void Detacher::stop_awaiting_sleepers(std::set<Tid>* awaited) {
    std::erase_if(*awaited, [this](Tid tid) {
        const auto kernel = try_read_kernel_state(target_.pid(), tid);
        return !kernel || kernel->has_ended() ||
               (sleeps_uninterruptibly(*kernel) &&
                (!trap_signal_.has_changed_mask(tid) || may_wait_for_child(*kernel)));
    });
    target_.forget_dead_children();
}

void Detacher::collect(const StopEvent& event, std::set<Tid>* awaited) {
    const Tid tid = tid_of(event);
    awaited->erase(tid);
    if (const auto* child = std::get_if<ChildStop>(&event)) {
        if (child->shares_memory) {
            target_.adopt_child(tid); // stopped, and let go of with the others
        } else {
            clean_copy(target_, breakpoints_, trap_signal_, tid, own_pages());
            trap_signal_.on_thread_gone(tid);
            target_.detach(tid);
        }
        return;
    }
    if (const auto* gone = std::get_if<ThreadGone>(&event)) {
        trap_signal_.on_thread_gone(tid);
        are_out_.erase(tid); // its number may be another's soon
        observer_.on_thread_gone(*gone);
        target_ended_ = target_.threads().empty() && target_.expected_children().empty();
        target_gone_ = target_gone_ || target_ended_;
        return;
    }
    if (const auto* exec = std::get_if<ExecStop>(&event)) {
        trap_signal_.restore_after_exec(tid, exec->former);
        if (tid == target_.pid()) { // else a vfork child's
            const Patience patience(Target::kMostMsForNewborns);
            while (const auto child = target_.await_newborn(patience)) {
                collect(*child, awaited);
            }
            breakpoints_.forget_all();
            target_gone_ = true; // what we changed is gone with the old program
        } else {
            target_.detach(tid);
        }
        return;
    }
    if (const auto* birth = std::get_if<BirthStop>(&event)) {
        trap_signal_.on_birth(tid, birth->child);
    }
    if (std::holds_alternative<TrapStop>(event) && collect_hit(tid)) {
        awaited->insert(tid);
        return;
    }
    if (std::holds_alternative<SignalStop>(event) && deliver(tid)) {
        awaited->insert(tid);
        return;
    }
    target_.consume_stop(tid);
    if (std::holds_alternative<GroupStop>(event)) {
        in_group_stop_.insert(tid);
    }
    const bool quiet =
        std::holds_alternative<QuietStop>(event) || std::holds_alternative<GroupStop>(event);
    if (quiet && StoppedThread(tid).has_pending_exception()) {
        awaited->insert(tid);
        target_.resume(tid);
    } else if (!is_settled(tid)) {
        awaited->insert(tid);
        to_get_out_.insert(tid);
    }
}

bool Detacher::is_settled(Tid tid) {
    const int signal = target_.stop_signal(tid);
    const Whereabouts where = move_out(tid);
    if (where != Whereabouts::outside) {
        are_out_.erase(tid); // by way of our handler for SIGTRAP, once more
    }
    switch (where) {
    case Whereabouts::in_our_code:
        if (signal != 0 && !is_exception(signal) && target_.signals().hold(tid)) {
            target_.resume(tid);
        } else {
            may_be_referenced_ = may_be_referenced_ || ThreadSignals::is_caught(tid, signal);
            target_.resume(tid, signal);
        }
        return false;
    case Whereabouts::to_come_back:
        target_.resume(tid, signal);
        return false;
    case Whereabouts::outside:
        are_out_.insert(tid);
        break;
    }
    ThreadSignals& signals = target_.signals();
    if (!signals.awaits_sent(tid)) {
        if (signal != 0 && signals.comes_too_early(tid, signal) && !signals.has_timely_held(tid)) {
            return true; // it gets this one with its detach, and what was held back then
        }
        if (!signals.send_held(tid)) {
            return true;
        }
        if (!signals.awaits_sent(tid) && !ThreadSignals::is_about_to_stop(tid)) {
            return true; // there was no room for it: send_late() has more time
        }
    }
    target_.resume(tid, signal); // stops with the one that was held back
    return false;
}

bool Detacher::collect_hit(Tid tid) {
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return true; // killed meanwhile
    }
    if (!StoppedThread(tid).is_breakpoint_trap()) {
        return false;
    }
    const Breakpoint* breakpoint = breakpoints_.find_hit(regs);
    if (breakpoint == nullptr) {
        return false;
    }
    breakpoints_.move_to_slot(tid, regs, *breakpoint);
    target_.drop_stop_signal(tid);
    trap_signal_.after_hit(tid);
    arch::set_pc(regs, breakpoint->place());
    observer_.on_late_hit(tid, regs, *breakpoint);
    // Should we die as long as the signal is there, our handler knows it by the slot only. Then it
    // is moved out.
    target_.signals().go_past_signal(tid);
    return true;
}

// Were it kept back until it is let go of, it would be late should we die meanwhile: who has raised
// it may have left the place that its handler jumps to by siglongjmp. A SIGTRAP of the target's is
// kept back all the same: as long as our handler stands before its own, the frame leads to our
// page.
bool Detacher::deliver(Tid tid) {
    if (move_out(tid) != Whereabouts::outside ||
        target_.signals().comes_too_early(tid, target_.stop_signal(tid))) {
        return false; // in the latter case with its detach
    }
    target_.signals().go_past_signal(tid);
    return true;
}

bool Detacher::is_in_call(Tid tid, RemoteAddr sp) const {
    return own_.will_be_back(tid, sp) ||
           (own_.may_be_back(tid, sp) &&
            !ReferenceSearch(target_, own_.ranges(), unwinder_).leads_past(tid));
}

bool Detacher::will_be_back(Tid tid, RemoteAddr sp) const {
    return is_in_call(tid, sp) ||
           (may_be_referenced_ && refers_to(target_, tid, own_.ranges(), unwinder_));
}

Detacher::Whereabouts Detacher::move_out(Tid tid) {
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return Whereabouts::outside; // its end will be told
    }
    const MoveOut move = own_.move_out(&regs);
    if (move == MoveOut::must_run_on) {
        return Whereabouts::in_our_code;
    }
    if (will_be_back(tid, arch::sp(regs))) {
        return Whereabouts::to_come_back;
    }
    if (move == MoveOut::moved) {
        StoppedThread(tid).set_registers(regs);
    }
    return Whereabouts::outside;
}

} // namespace memleax
