// SPDX-License-Identifier: GPL-3.0-or-later
// What a status means (ptrace(2)).
#include <algorithm>
#include <csignal>

#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/living_thread.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"
#include "memleax/target.hpp"

namespace memleax {

namespace {

bool same_memory(Tid a, Tid b) {
    const long order = syscall(SYS_kcmp, living_thread(a).value(), b.value(), KCMP_VM, 0, 0);
    if (order < 0) {
        // Without CONFIG_KCMP: taken for a copy. Then breakpoints are taken out of a memory that is
        // shared: allocations are missed, nothing breaks.
        log_warning(
            "cannot tell whether child {} shares the target's memory (kcmp is not available)",
            b.value());
    }
    return order == 0;
}

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

bool Target::has_executed() {
    // Whatever it was stopped for before is over by then.
    if (const auto event = wait_for(pid_, WNOHANG)) {
        if (std::holds_alternative<ExecStop>(*event)) {
            tracer_.forget_deferred(pid_);
        }
        tracer_.put_off({this, *event});
    }
    return std::any_of(tracer_.deferred_.begin(), tracer_.deferred_.end(),
                       [this](const Tracer::Stop& stop) {
                           return stop.target == this && tid_of(stop.event) == pid_ &&
                                  std::holds_alternative<ExecStop>(stop.event);
                       });
}

std::optional<StopEvent> Target::wait_for_stop(Tid tid) {
    for (int polls = 0;; ++polls) {
        if (auto event = wait_for(tid, WNOHANG)) {
            return event;
        }
        if (polls < SpinPolicy::kPolls) {
            sched_yield();
            continue;
        }
        const auto kernel = try_read_kernel_state(pid_, tid);
        if (kernel && kernel->has_ended() && tid != pid_) {
            return wait_for(tid, 0); // it is about to be told
        }
        if (!kernel || kernel->has_ended() || (kernel->state == 'D' && children_need_us())) {
            return std::nullopt;
        }
        tracer_.reap_dead(tid);
        poll(nullptr, 0, 1);
    }
}

bool Target::children_need_us() const {
    return !expected_children_.empty() ||
           std::any_of(threads_.begin(), threads_.end(),
                       [](const auto& entry) { return entry.second.is_child_process; }) ||
           std::any_of(tracer_.deferred_.begin(), tracer_.deferred_.end(),
                       [this](const Tracer::Stop& stop) {
                           return stop.target == this &&
                                  std::holds_alternative<ChildStop>(stop.event);
                       });
}

StopEvent Target::child_stop(Tid child) const {
    return ChildStop{child, same_memory(pid_, child)};
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
    thread.state = TracedThread::State::stopped;
    thread.stop_signal = 0;
    thread.in_system_call = event != 0 && event != PTRACE_EVENT_STOP;
    thread.in_vfork = event == PTRACE_EVENT_VFORK;

    switch (event) {
    case 0:
        thread.stop_signal = signal;
        if (signal == SIGTRAP) {
            return TrapStop{tid};
        }
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

/// The other threads went without a word, and their ids may be used anew.
void Target::on_exec(Tid tid) {
    std::vector<Tid> gone;
    for (const auto& [other, thread] : threads_) {
        if (other != tid && !thread.is_child_process) {
            gone.push_back(other);
        }
    }
    for (const Tid other : gone) {
        remove_thread(other);
    }
}

} // namespace memleax
