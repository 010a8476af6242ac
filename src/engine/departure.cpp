// SPDX-License-Identifier: GPL-3.0-or-later
// The order is what makes it safe (design, section 7): code first, so that nobody can get into a
// slot any more; then every thread that might stand in one or at a breakpoint is stopped and moved
// out; then the slots go; then the threads are let go of.
//
// A thread that sleeps in a system call needs none of that: its pc is behind a system call
// instruction, which is never displaced. It is not even stopped, because some calls end with EINTR
// when they are (epoll_wait, semop, ...; signal(7)). The kernel lets go of it, without a stop, when
// the tracer thread ends.
#include "departure.hpp"

#include <csignal>
#include <utility>

#include <poll.h>

#include "forked_copy.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"
#include "page_references.hpp"

namespace memleax {

namespace {

constexpr int kPauseMs = 1;
/// After so many pauses in which no thread stopped, those we wait for are looked at again.
constexpr int kPatience = 20;

} // namespace

void Departure::complete() {
    collect_threads();
    if (!target_gone_) {
        give_pages_back();
    }
    let_go();
}

bool Departure::is_ours(CodeAddr pc) const {
    return breakpoints_.slots().contains(pc) || breakpoints_.handler().contains(pc);
}

bool Departure::may_sleep_on(Tid tid) const {
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    if (kernel && kernel->has_ended()) {
        return true; // the first thread, whose end is not told before the others'
    }
    return kernel && (kernel->state == 'S' || kernel->state == 'D') && kernel->system_call &&
           !is_ours(kernel->pc) && !trap_signal_.has_changed_mask(tid);
}

void Departure::collect_threads() {
    std::set<Tid> awaited;
    for (const auto& [tid, thread] : target_.threads()) {
        // Already stopped ones have their event in the queue.
        if (thread.state != TracedThread::State::stopped && !may_sleep_on(tid)) {
            awaited.insert(tid);
        }
    }
    for (const Tid tid : awaited) {
        target_.interrupt(tid);
    }
    await(&awaited);
}

void Departure::await(std::set<Tid>* awaited) {
    int idle = 0;
    while (!target_gone_) {
        if (const auto event = target_.next_event(Target::Wait::poll)) {
            collect(*event, awaited);
            idle = 0;
            continue;
        }
        if (awaited->empty() && target_.expected_children().empty()) {
            return;
        }
        // Not a blocking wait: a thread that has gone to sleep uninterruptibly (vfork, a dead file
        // server) would keep us for ever, and need not be waited for.
        poll(nullptr, 0, kPauseMs);
        for (const Tid tid : std::exchange(in_handler_, {})) {
            target_.interrupt(tid);
        }
        if (++idle % kPatience == 0) {
            std::erase_if(*awaited, [this](Tid tid) {
                const auto kernel = try_read_kernel_state(target_.pid(), tid);
                return !kernel || kernel->has_ended() ||
                       (kernel->state == 'D' && kernel->system_call && !is_ours(kernel->pc));
            });
            target_.forget_dead_children();
        }
    }
}

void Departure::collect(const StopEvent& event, std::set<Tid>* awaited) {
    const Tid tid = tid_of(event);
    awaited->erase(tid);
    if (const auto* child = std::get_if<ChildStop>(&event)) {
        if (child->shares_memory) {
            target_.adopt_child(tid); // stopped, and let go of with the others
        } else {
            clean_copy(target_, breakpoints_, trap_signal_, tid, doubtful_);
            target_.detach(tid);
        }
        return;
    }
    if (const auto* gone = std::get_if<ThreadGone>(&event)) {
        trap_signal_.on_thread_gone(tid);
        observer_.on_thread_gone(*gone);
        target_ended_ = target_.threads().empty() && target_.expected_children().empty();
        target_gone_ = target_gone_ || target_ended_;
        return;
    }
    if (const auto* exec = std::get_if<ExecStop>(&event)) {
        trap_signal_.restore_after_exec(tid, exec->former);
        if (tid == target_.pid()) { // else a vfork child's
            breakpoints_.forget_all();
            target_gone_ = true; // what we changed is gone with the old program
        }
        return;
    }
    if (std::holds_alternative<TrapStop>(event) && collect_hit(tid)) {
        return;
    }
    target_.take_stop(tid);
    const int stop_signal = target_.stop_signal(tid);
    const bool quiet =
        std::holds_alternative<QuietStop>(event) || std::holds_alternative<GroupStop>(event);
    if (quiet && target_.has_pending_exception(tid)) {
        awaited->insert(tid);
        target_.resume(tid);
    } else if (!move_out(tid)) {
        // In our handler, which is short, and gets out by itself. It blocks all signals but for its
        // last instructions.
        doubtful_ = doubtful_ || !quiet;
        awaited->insert(tid);
        in_handler_.push_back(tid);
        target_.resume(tid, stop_signal);
    }
}

bool Departure::collect_hit(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return true; // killed meanwhile
    }
    if (!target_.is_breakpoint_trap(tid)) {
        return false;
    }
    const Breakpoint* breakpoint = breakpoints_.find_hit(regs);
    if (breakpoint == nullptr) {
        return false;
    }
    target_.set_pc(tid, &regs, breakpoint->address);
    target_.drop_stop_signal(tid);
    target_.take_stop(tid);
    trap_signal_.after_hit(tid);
    observer_.on_late_hit(tid, regs, *breakpoint);
    return true;
}

bool Departure::move_out(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return true; // its end will be told
    }
    if (breakpoints_.leave_slot(&regs)) {
        target_.set_registers(tid, regs);
        return true;
    }
    return !breakpoints_.handler().contains(arch::pc(regs));
}

// Nobody's pc leads to our pages any more, so that one that is about to get a signal can get it
// now. It would have to be stepped else, which kills it should we die after our handler has gone;
// but for SIGTRAP, for which that is still there.
Result<Tid> Departure::borrow_thread() {
    for (;;) {
        auto worker = target_.borrow_thread();
        const int signal = worker ? target_.stop_signal(*worker) : 0;
        if (signal == 0 || signal == SIGTRAP || target_.deliver_first(*worker)) {
            return worker;
        }
    }
}

void Departure::give_pages_back() {
    if (breakpoints_.slots().empty() && !breakpoints_.handler().mapped()) {
        return;
    }
    auto worker = borrow_thread();
    // Of the one that was borrowed, and of sleepers that have woken up since.
    std::set<Tid> awaited;
    await(&awaited);
    if (!worker || target_gone_ || !target_.is_stopped(*worker)) {
        return; // the process has ended
    }
    if (const auto restored = trap_signal_.restore(*worker); !restored) {
        log_warning("{}: pages of ours stay mapped, and do no harm", restored.error().message());
        return;
    }
    if (doubtful_) {
        std::vector<AddrRange> pages = breakpoints_.slots().ranges();
        pages.push_back(target_.record().handler);
        if (const auto thread = find_reference(target_, pages)) {
            log_warning("thread {} is in a signal handler that returns to a page of ours ({:#x}): "
                        "such pages stay mapped, and do no harm",
                        thread->tid.value(), thread->page.begin);
            return;
        }
    }
    auto unmapped = breakpoints_.slots().unmap(*worker);
    if (unmapped) {
        unmapped = breakpoints_.handler().unmap(*worker);
    }
    if (!unmapped && !target_gone_) {
        log_warning("{}: pages of ours stay mapped, and do no harm", unmapped.error().message());
    }
}

void Departure::let_go() {
    std::vector<std::pair<Tid, int>> stopped;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped) {
            stopped.emplace_back(tid, thread.stop_signal);
        }
    }
    for (const auto& [tid, signal] : stopped) {
        target_.detach(tid, signal);
    }
    breakpoints_.forget_all();
}

} // namespace memleax
