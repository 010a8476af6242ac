// SPDX-License-Identifier: GPL-3.0-or-later
// What a status means (ptrace(2)).
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

namespace {

Tid event_message(Tid tid) {
    unsigned long message = 0;
    ptrace(PTRACE_GETEVENTMSG, tid.value(), nullptr, &message);
    return Tid(static_cast<int>(message));
}

} // namespace

std::optional<StopEvent> Target::wait_for(Tid tid, int flags) {
    const auto stop = tracer_.wait_for(tid, flags);
    if (stop && stop->target != this) {
        tracer_.put_off(*stop);
        return std::nullopt;
    }
    return stop ? std::optional(stop->event) : std::nullopt;
}

std::optional<StopEvent> Target::wait_for_stop(Tid tid) {
    constexpr std::int64_t kMostMs = 5000;
    constexpr std::int64_t kMostMsOutOfReach = 20;
    const Patience patience(kMostMs);
    Patience out_of_reach(kMostMsOutOfReach);
    for (int looks = 0;; ++looks) {
        if (auto event = wait_for(tid, WNOHANG)) {
            return event;
        }
        if (looks > SpinPolicy::polls()) {
            const auto kernel = try_read_kernel_state(pid_, tid);
            if (!kernel || (kernel->has_ended() && tid == pid_)) {
                return std::nullopt;
            }
            if (kernel->state != 'D' && !kernel->has_ended()) {
                out_of_reach.begin_anew();
            }
            if (out_of_reach.is_over() || patience.is_over()) {
                return std::nullopt;
            }
        }
        pause_between_looks(tid, looks);
    }
}

Error Target::cannot_be_stopped() const {
    const bool any_lives = std::any_of(threads_.begin(), threads_.end(), [](const auto& entry) {
        const auto info = try_read_process_info(entry.first);
        return !entry.second.is_child_process && info && !info->has_ended();
    });
    if (!any_lives) {
        return Error(fmt::format("process {} has ended", pid_.value()), ESRCH);
    }
    return Error(fmt::format("process {} cannot be stopped now: all its threads wait in the "
                             "kernel, for a child by vfork or a device",
                             pid_.value()),
                 EAGAIN);
}

void Target::pause_between_looks(Tid tid, int looks) {
    const int pauses = looks - SpinPolicy::polls(); // before this one
    if (pauses < 0) {
        return;
    }
    constexpr int kPausesBetweenReapings = 8;
    if ((pauses + 1) % kPausesBetweenReapings == 0) {
        reap_dead(group_of(tid));
    }
    constexpr timespec kPause{0, 100'000};
    nanosleep(&kPause, nullptr);
}

void Target::reap_dead(Tid process) {
    // One by one: a wait for any would find stops as well, which a tracer is always told of
    // (kernel/exit.c, wait_task_stopped).
    for (const Tid tid : list_threads(process)) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(tid.value()), &info,
                   WEXITED | WNOWAIT | WNOHANG | __WALL | __WNOTHREAD) == 0 &&
            info.si_pid != 0 && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
            if (const auto end = tracer_.wait_for(tid, WNOHANG)) {
                tracer_.deferred_.push_back(*end);
            }
        }
    }
}

StopEvent Target::child_stop(Tid child) const {
    return ChildStop{child, shares_memory(pid_, child)};
}

std::optional<StopEvent> Target::decode(Tid tid, int status) {
    const auto it = threads_.find(tid);
    if (!WIFSTOPPED(status)) {
        const bool known = it != threads_.end();
        expected_children_.erase(tid);
        early_children_.erase(tid);
        remove_thread(tid);
        return known || tid == pid_ ? std::optional<StopEvent>(ThreadGone{tid, status})
                                    : std::nullopt;
    }
    return decode_stop(tid, it != threads_.end() ? it->second : add_thread(tid), status);
}

StopEvent Target::decode_stop(Tid tid, TracedThread& thread, int status) {
    const int signal = WSTOPSIG(status);
    const int event = status >> 16;
    if (core_signal_ && core_signal_->first == tid) {
        core_signal_.reset(); // it lives
    }
    thread.state = TracedThread::State::stopped;
    thread.stop_signal = 0;
    thread.in_system_call = event != 0 && event != PTRACE_EVENT_STOP;
    thread.in_vfork = event == PTRACE_EVENT_VFORK;

    switch (event) {
    case 0:
        thread.stop_signal = signal;
        if (!sent_again_.empty()) {
            restore_payload(tid, signal);
        }
        if (signal == SIGTRAP) {
            thread.begun_again.reset(); // it runs
            return TrapStop{tid};
        }
        end_call_begun_again(tid, signal);
        begin_interrupted_call_again(tid, signal);
        return SignalStop{tid, signal};
    case PTRACE_EVENT_STOP:
        if (signal == SIGTRAP) {
            begin_interrupted_call_again(tid, 0);
            return QuietStop{tid};
        }
        return GroupStop{tid, signal};
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK: {
        const Tid child = event_message(tid);
        if (early_children_.erase(child) == 0 && !tracer_.claim_orphan(child, *this)) {
            expected_children_.insert(child);
        }
        return BirthStop{tid, child};
    }
    case PTRACE_EVENT_EXEC: {
        const Tid former = event_message(tid);
        if (tid == pid_) {
            on_exec(tid);
        }
        return ExecStop{tid, former};
    }
    default:
        return QuietStop{tid};
    }
}

} // namespace memleax
