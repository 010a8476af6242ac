// SPDX-License-Identifier: GPL-3.0-or-later
// The order is what makes it safe (docs/leaving-and-recovery.md): code first, so that nobody gets
// into a slot; then every thread that might stand in one or at a breakpoint is stopped and moved
// out; then the slots go; then the threads are let go of.
//
// A thread that sleeps in a system call needs none of that: its pc is behind a system call
// instruction, which is never displaced. It is not even stopped, because some calls end with EINTR
// when they are (epoll_wait, semop, ...; signal(7)). The kernel lets go of it, without a stop, when
// the tracer thread ends.
#include "detacher.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/base/thread_priority.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/vfork.hpp"
#include "thaw.hpp"

namespace memleax {

void Detacher::complete() {
    run_as_usual(); // it may have left another process
    await_thaw(target_.pid(), [this] { target_.put_off_stops(); });
    let_calls_end();
    collect_threads();
    if (!target_gone_) {
        give_pages_back();
    }
    let_go();
    if (pages_ && !target_gone_) {
        clean_last_copies();
    }
    breakpoints_.forget_all();
}

// No pc leads to our pages here, so that one that is about to get a signal can get it now: the
// guardian would send it late, should we die. A SIGTRAP has to wait, as our handler is still there,
// to whose page its frame would lead back.
bool Detacher::can_be_borrowed(Tid tid) {
    const int signal = target_.stop_signal(tid);
    return signal == 0 || signal == SIGTRAP || target_.signals().deliver_first(tid);
}

Result<Tid> Detacher::borrow_thread() {
    for (const Patience patience(kMostMsForOthers);;) {
        auto worker = target_.borrower().borrow_thread(ThreadBorrower::OnSignal::wait_on);
        if (worker ? can_be_borrowed(*worker) : worker.error().errnum() != EAGAIN) {
            return worker;
        }
        if (patience.is_over()) {
            return worker ? std::move(worker) : target_.borrower().borrow_child();
        }
        if (!worker) {
            let_others_go_on();
        }
        if (target_gone_) {
            return Error("the process has ended", ESRCH);
        }
    }
}

// The code is the target's own, and no pc is in a page of ours: they may run.
void Detacher::let_others_go_on() {
    enter_vfork_waits(target_);
    std::vector<Tid> children;
    std::vector<Tid> with_signal;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state != TracedThread::State::stopped) {
            continue;
        }
        if (!thread.is_child_process && thread.stop_signal != 0) {
            with_signal.push_back(tid);
        } else if (thread.is_child_process && !in_group_stop_.contains(tid)) {
            children.push_back(tid);
        }
    }
    for (const Tid tid : children) {
        target_.resume(tid, target_.stop_signal(tid));
    }
    for (const Tid tid : with_signal) {
        (void)target_.signals().deliver_first(tid);
    }
    poll(nullptr, 0, kPauseMs);
    std::set<Tid> awaited; // of none in particular
    await(&awaited);
}

void Detacher::give_pages_back() {
    if (own_.empty() && unknown_page_.size() == 0) {
        return;
    }
    auto worker = borrow_thread();
    // Of the one that was borrowed, and of sleepers that have woken up since.
    std::set<Tid> awaited;
    await(&awaited);
    if (target_gone_) {
        return;
    }
    if (worker && !target_.is_stopped(*worker)) {
        return; // the process ends
    }
    if (!worker) {
        if (worker.error().errnum() == EAGAIN || worker.error().errnum() == EBUSY) {
            log_warning("{}: pages of ours stay mapped, and do no harm", worker.error().message());
        }
        return;
    }
    if (any_missed_) {
        log_warning("process {} has threads that cannot be stopped now: pages of ours stay mapped, "
                    "and do no harm",
                    target_.pid().value());
        return;
    }
    pages_ = OwnPages(target_.memory(), own_);
    if (const auto restored = trap_signal_.restore(*worker); !restored) {
        log_warning("{}: pages of ours stay mapped, and do no harm", restored.error().message());
        return;
    }
    if (may_be_referenced_) {
        if (const auto thread = find_reference(target_, own_.ranges(), unwinder_, are_out_)) {
            log_warning("thread {} is in a signal handler that returns to a page of ours ({:#x}): "
                        "such pages stay mapped, and do no harm",
                        thread->tid.value(), thread->page.begin);
            return;
        }
    }
    const auto unmapped = unmap_pages(*worker);
    if (!unmapped && !target_gone_) {
        log_warning("{}: pages of ours stay mapped, and do no harm", unmapped.error().message());
    }
}

Result<void> Detacher::unmap_pages(Tid worker) {
    if (unknown_page_.size() != 0) {
        (void)target_.system_call(worker, SYS_munmap, {unknown_page_.begin, unknown_page_.size()});
    }
    return own_.unmap(worker);
}

// Whoever is let go of would take the CPU from us for some milliseconds, while others stand still.
void Detacher::let_go() {
    auto late = target_.signals().send_all_held(); // to whoever did not get out
    run_before_others();
    detach_stopped();
    if (!late.empty() && !target_gone_) { // threads that run make room
        send_late(std::move(late));
    }
}

// Sleepers are still traced. One that is woken by a signal would stand in its stop, and what it is
// sent meanwhile would take the room.
void Detacher::send_late(std::vector<ThreadSignals::Late> late) {
    ThreadSignals& signals = target_.signals();
    for (const Patience patience(kMostMsForOthers);;) {
        signals.send_late(&late);
        if (late.empty()) {
            return;
        }
        if (patience.is_over()) {
            break;
        }
        ThreadSignals::wait_for_room();
        if (!collect_stopped()) {
            for (const auto& each : late) { // not the next program's
                target_.record().settle(each.tid);
            }
            return;
        }
        const auto more = signals.send_all_held(); // from who was in pages that stay
        late.insert(late.end(), more.begin(), more.end());
        detach_stopped();
    }
    ThreadSignals::give_up(late);
}

bool Detacher::collect_stopped() {
    while (const auto event = target_.next_event(Target::Wait::poll)) {
        std::set<Tid> any;
        collect(*event, &any);
        if (target_gone_) {
            return false;
        }
    }
    return true;
}

void Detacher::detach_stopped() {
    std::vector<std::pair<Tid, int>> stopped;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped) {
            stopped.emplace_back(tid, thread.stop_signal);
        }
    }
    for (const auto& [tid, signal] : stopped) {
        target_.detach(tid, signal);
    }
}

} // namespace memleax
