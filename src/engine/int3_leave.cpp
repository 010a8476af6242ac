// SPDX-License-Identifier: GPL-3.0-or-later
// Leaving: the target becomes what it was. The order is what makes it safe (design, section 7):
// code first, so that nobody can get into a slot any more; then every thread that might stand in
// one or at a breakpoint is stopped and moved out; then the slots go; then the threads are let go
// of.
//
// A thread that sleeps in a system call needs none of that: its pc is behind a system call
// instruction, which is never displaced. It is not even stopped, because some calls end with EINTR
// when they are (epoll_wait, semop, ...; signal(7)). The kernel lets go of it, without a stop, when
// the tracer thread ends.
#include <algorithm>
#include <csignal>

#include <poll.h>

#include "int3_engine_impl.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"

namespace memleax {

namespace {

constexpr int kPauseMs = 1;
/// After so many pauses in which no thread stopped, those we wait for are looked at again.
constexpr int kPatience = 20;

} // namespace

void Int3Engine::leave() {
    if (!armed_) {
        return;
    }
    armed_ = false;
    if (!target_gone_) {
        restore_code();
        collect_threads();
    }
    if (!target_gone_) {
        unmap_slots();
    }
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

void Int3Engine::restore_code() {
    // Those that begin blocks first: a block must not be counted whose end could not be seen.
    std::vector<Breakpoint*> entries;
    for (Breakpoint* breakpoint : breakpoints_.all()) {
        if (breakpoint->entry >= 0) {
            entries.push_back(breakpoint);
        }
    }
    std::sort(entries.begin(), entries.end(), [this](const Breakpoint* a, const Breakpoint* b) {
        return calls_.entry(a->entry).function->call > calls_.entry(b->entry).function->call;
    });
    for (Breakpoint* breakpoint : entries) {
        breakpoints_.restore(*breakpoint);
    }
    breakpoints_.restore_all();
}

bool Int3Engine::may_sleep_on(Tid tid) const {
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    if (kernel && kernel->has_ended()) {
        return true; // the first thread, whose end is not told before the others'
    }
    return kernel && (kernel->state == 'S' || kernel->state == 'D') && kernel->system_call &&
           !breakpoints_.slots().contains(kernel->pc);
}

void Int3Engine::collect_threads() {
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

void Int3Engine::await(std::set<Tid>* awaited) {
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
        if (++idle % kPatience == 0) {
            std::erase_if(*awaited, [this](Tid tid) {
                const auto kernel = try_read_kernel_state(target_.pid(), tid);
                return !kernel || kernel->has_ended() ||
                       (kernel->state == 'D' && may_sleep_on(tid));
            });
            target_.forget_dead_children();
        }
    }
}

void Int3Engine::collect(const StopEvent& event, std::set<Tid>* awaited) {
    const Tid tid = tid_of(event);
    awaited->erase(tid);
    if (const auto* child = std::get_if<ChildStop>(&event)) {
        if (child->shares_memory) {
            target_.adopt_child(tid); // stopped, and let go of with the others
        } else {
            let_go_of_copy(tid);
        }
        return;
    }
    if (std::holds_alternative<ThreadGone>(event)) {
        on_stop(std::get<ThreadGone>(event));
        return;
    }
    if (std::holds_alternative<ExecStop>(event) && tid == target_.pid()) {
        breakpoints_.forget_all();
        return;
    }
    if (std::holds_alternative<TrapStop>(event)) {
        arch::Registers regs;
        if (target_.get_registers(tid, &regs)) {
            if (const Breakpoint* breakpoint = our_breakpoint(tid, &regs)) {
                // It ran into a breakpoint just before the code was restored.
                trap_signal_.after_hit(tid);
                calls_.on_hit(tid, regs, *breakpoint, false);
                target_.set_pc(tid, &regs, breakpoint->address);
                target_.drop_stop_signal(tid);
                return;
            }
        }
    }
    const bool quiet =
        std::holds_alternative<QuietStop>(event) || std::holds_alternative<GroupStop>(event);
    if (quiet && target_.has_pending_trap(tid)) {
        awaited->insert(tid);
        target_.resume(tid);
        return;
    }
    move_out_of_slot(tid);
}

void Int3Engine::unmap_slots() {
    if (breakpoints_.slots().empty()) {
        return;
    }
    auto worker = target_.borrow_thread();
    // Of the one that was borrowed, and of sleepers that have woken up since.
    std::set<Tid> awaited;
    await(&awaited);
    if (!worker) {
        return; // the process has ended
    }
    trap_signal_.restore(*worker);
    const auto unmapped = breakpoints_.slots().unmap(*worker);
    if (!unmapped && !target_gone_) {
        log_warning("{}: pages of ours stay mapped, and do no harm", unmapped.error().message());
    }
}

} // namespace memleax
