// SPDX-License-Identifier: GPL-3.0-or-later
#include "stopped_process.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/pending_exec.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"

namespace memleax {

Result<std::unique_ptr<StoppedProcess>> StoppedProcess::stop(Tid pid, RecoveryFile* records) {
    std::unique_ptr<StoppedProcess> process(new StoppedProcess(pid, records));
    auto target = Target::seize(process->tracer_, pid);
    if (!target) {
        return std::move(target).error();
    }
    process->target_ = *std::move(target);
    if (auto no_dump = check_no_core_dump(pid); !no_dump) {
        return std::move(no_dump).error();
    }
    auto stopped = process->stop_all();
    if (!stopped) {
        return std::move(stopped).error();
    }
    return process;
}

StoppedProcess::~StoppedProcess() {
    let_go();
    end_copy();
}

void StoppedProcess::end_copy() {
    if (copy_ != nullptr) {
        copy_->end();
        if (auto reaped = reap_copies(pid_, copy_->record()); !reaped) {
            log_warning("{}", reaped.error().message());
        }
        copy_.reset();
    }
}

std::int64_t StoppedProcess::let_go() {
    if (target_ != nullptr) {
        auto late = target_->signals().send_all_held();
        std::vector<std::pair<Tid, int>> stopped;
        for (const auto& [tid, thread] : target_->threads()) {
            if (thread.state == TracedThread::State::stopped) {
                stopped.emplace_back(tid, thread.stop_signal);
            }
        }
        for (const auto& [tid, signal] : stopped) {
            target_->detach(tid, signal);
        }
        stood_ns_ = since_.value() != 0 ? monotonic_now().value() - since_.value() : 0;
        send_late(std::move(late));
        target_.reset();
    }
    return stood_ns_;
}

// As soon as there is room, which threads that run make. All have been stopped and let go of: no
// stop of theirs is to be served.
void StoppedProcess::send_late(std::vector<ThreadSignals::Late> late) {
    const Patience patience(kMostMsForOthers);
    for (; !late.empty(); ThreadSignals::wait_for_room()) {
        target_->signals().send_late(&late);
        if (patience.is_over()) {
            break;
        }
    }
    ThreadSignals::give_up(late);
}

std::vector<Tid> StoppedProcess::running() const {
    std::vector<Tid> result;
    for (const auto& [tid, thread] : target_->threads()) {
        if (thread.state == TracedThread::State::running) {
            result.push_back(tid);
        }
    }
    return result;
}

Result<void> StoppedProcess::stop_all() {
    {
        const Tracer::ServesMeanwhile all(
            tracer_, [this](const Target* but, std::int64_t ns) { return serve(but, ns); });
        const auto since = target_->borrower().await_harmless_stop_of_all();
        if (!since) {
            return Error(since.error()).with_advice("try again when that is over");
        }
        since_ = *since;
    }
    if (executes_another_) {
        return Error(fmt::format("process {} executes another program", pid_.value()), EAGAIN);
    }
    if (const auto& all = target_->threads();
        std::any_of(all.begin(), all.end(), [](const auto& entry) {
            return entry.second.state == TracedThread::State::listening;
        })) {
        return Error(fmt::format("process {} is stopped by a signal", pid_.value()), EAGAIN);
    }
    return stop_running();
}

bool StoppedProcess::serve(const Target* but, std::int64_t ns) {
    constexpr timespec kPause{0, 100'000};
    const std::int64_t end = monotonic_now().value() + ns;
    do {
        const auto event = but == nullptr ? target_->next_event(Target::Wait::poll) : std::nullopt;
        if (event) {
            let_go_on(*event);
        } else {
            target_->forget_dead_children();
            if (but == nullptr) {
                target_->signals().send_held_to_running();
            }
            nanosleep(&kPause, nullptr);
        }
    } while (monotonic_now().value() < end);
    return false;
}

// As if nobody were there: it has not been stopped by us.
void StoppedProcess::let_go_on(const StopEvent& event) {
    const Tid tid = tid_of(event);
    if (std::holds_alternative<ThreadGone>(event)) {
        return;
    }
    if (std::holds_alternative<ExecStop>(event) && tid != pid_) { // its memory is its own now
        target_->detach(tid);
        return;
    }
    executes_another_ = executes_another_ || std::holds_alternative<ExecStop>(event);
    if (const auto* child = std::get_if<ChildStop>(&event)) {
        if (!child->shares_memory) {
            target_->detach(tid);
            return;
        }
        target_->adopt_child(tid);
    }
    if (std::holds_alternative<GroupStop>(event)) {
        target_->listen(tid);
    } else {
        target_->resume(tid, target_->stop_signal(tid));
    }
}

Result<void> StoppedProcess::let_run(std::span<const Tid> threads, int us) {
    for (const Tid tid : threads) {
        if (target_->is_stopped(tid)) {
            while (target_->has_deferred(tid)) { // its stop is over
                (void)target_->next_event(Target::Wait::poll);
            }
            target_->resume(tid, target_->stop_signal(tid));
        }
    }
    usleep(static_cast<useconds_t>(us));
    return stop_running();
}

Result<void> StoppedProcess::stop_running() {
    constexpr std::int64_t kMostMs = 5000;
    for (const Patience patience(kMostMs);;) {
        if (auto stopped = stop_once(running()); !stopped) {
            return stopped;
        }
        if (auto born = await_newborns(); !born) {
            return born;
        }
        if (running().empty() && target_->expected_children().empty()) {
            break;
        }
        if (patience.is_over()) {
            return Error(fmt::format("process {} has threads that cannot be stopped now",
                                     target_->pid().value()),
                         EAGAIN);
        }
    }
    threads_.clear();
    for (const auto& [tid, thread] : target_->threads()) {
        if (thread.state == TracedThread::State::stopped) {
            threads_.push_back(tid);
        }
    }
    if (threads_.empty() || PendingExec(*target_).has_happened()) {
        return Error(fmt::format("process {} has ended, or executes another program",
                                 target_->pid().value()),
                     ESRCH);
    }
    return {};
}

Result<void> StoppedProcess::stop_once(const std::vector<Tid>& running) {
    for (const Tid tid : running) {
        target_->interrupt(tid);
    }
    // All of them, also behind one that cannot be stopped: a call that was interrupted goes on when
    // its thread's stop has been dealt with.
    Result<void> result;
    for (const Tid tid : running) {
        if (target_->await_and_defer(tid)) {
            continue;
        }
        const auto kernel = try_read_kernel_state(target_->pid(), tid);
        if (kernel && !kernel->has_ended() && target_->threads().contains(tid)) {
            result = Error(fmt::format("thread {} of process {} waits in the kernel, where it "
                                       "cannot be stopped",
                                       tid.value(), target_->pid().value()),
                           EAGAIN);
        }
        if (kernel && kernel->has_ended()) { // a first thread that has ended before the others
            target_->detach(tid);
        }
    }
    return result;
}

// A thread that has just been made stands still, and has not been told of; a child process that
// has, and has memory of its own, is none of ours.
Result<void> StoppedProcess::await_newborns() {
    constexpr std::int64_t kMostMs = 1000;
    for (const Patience patience(kMostMs);
         !target_->expected_children().empty() && !patience.is_over();) {
        const auto event = target_->next_event(Target::Wait::poll);
        if (!event) {
            target_->forget_dead_children();
            poll(nullptr, 0, 1);
            continue;
        }
        const Tid tid = tid_of(*event);
        if (const auto* child = std::get_if<ChildStop>(&*event)) {
            if (child->shares_memory) {
                target_->adopt_child(tid);
            } else {
                target_->detach(tid);
            }
        } else if (std::holds_alternative<TrapStop>(*event) ||
                   std::holds_alternative<SignalStop>(*event)) {
            target_->consume_stop(tid); // else it would be told again
        }
    }
    return {};
}

} // namespace memleax
