// SPDX-License-Identifier: GPL-3.0-or-later
// The one place that waits, and that knows what a status means (ptrace(2)).
#include <algorithm>
#include <cerrno>
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

std::optional<StopEvent> Target::next_event(Wait wait) {
    if (!deferred_.empty()) {
        const StopEvent event = deferred_.front();
        deferred_.pop_front();
        return event;
    }
    if (wait == Wait::block && spin_.worthwhile()) {
        for (int i = 0; i < SpinPolicy::kPolls; ++i) {
            if (auto event = wait_for(Tid(-1), WNOHANG)) {
                spin_.succeeded();
                return event;
            }
            sched_yield(); // the target may need this very CPU
        }
        spin_.failed();
    }
    return wait_for(Tid(-1), wait == Wait::poll ? WNOHANG : 0);
}

// A signal-delivery-stop is looked at, and not taken (WNOWAIT): should we die before the thread is
// resumed, the kernel delivers the signal then. Once waitpid has returned it, it would be lost
// (kernel/exit.c, wait_task_stopped: *p_code = 0), and with a breakpoint's SIGTRAP the thread, which
// would go on in the middle of an instruction.
std::optional<StopEvent> Target::wait_for(Tid which, int flags) {
    constexpr int kHow = __WALL | __WNOTHREAD; // children of our other threads are theirs to wait for
    const idtype_t kind = which.value() > 0 ? P_PID : P_ALL;
    for (;;) {
        siginfo_t info{};
        if (waitid(kind, static_cast<id_t>(std::max(which.value(), 0)), &info,
                   WEXITED | WSTOPPED | WNOWAIT | kHow | flags) != 0) {
            if (errno == EINTR && which.value() > 0) {
                continue; // a wait for one thread is short, and its caller relies on the answer
            }
            return std::nullopt;
        }
        if (info.si_pid == 0) {
            return std::nullopt;
        }
        int status = W_STOPCODE(info.si_status);
        const bool is_signal_stop = info.si_code == CLD_TRAPPED && info.si_status >> 8 == 0;
        if (!is_signal_stop && waitpid(info.si_pid, &status, kHow | WNOHANG) <= 0) {
            continue; // killed at this moment
        }
        if (auto event = decode(Tid(info.si_pid), status)) {
            return event;
        }
    }
}

void Target::take_stop(Tid tid) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(tid.value()), &info,
           WSTOPPED | __WALL | __WNOTHREAD | WNOHANG);
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
        poll(nullptr, 0, 1);
    }
}

bool Target::children_need_us() const {
    return !expected_children_.empty() ||
           std::any_of(threads_.begin(), threads_.end(),
                       [](const auto& entry) { return entry.second.is_child_process; }) ||
           std::any_of(deferred_.begin(), deferred_.end(), [](const StopEvent& event) {
               return std::holds_alternative<ChildStop>(event);
           });
}

std::optional<StopEvent> Target::decode(Tid tid, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
        const bool known = threads_.erase(tid) != 0;
        expected_children_.erase(tid);
        early_children_.erase(tid);
        std::erase_if(deferred_, [tid](const StopEvent& event) { return tid_of(event) == tid; });
        if (!known && tid != pid_) {
            return std::nullopt; // a child that was let go of, or that died before it reported
        }
        return ThreadGone{tid, status};
    }
    const int signal = WSTOPSIG(status);
    const int event = status >> 16;

    auto it = threads_.find(tid);
    if (it == threads_.end()) {
        // The first thread's id, when it was seized after that one had ended, comes back by exec.
        if (expected_children_.erase(tid) == 0 && tid != pid_) {
            early_children_.insert(tid);
        }
        if (tid != pid_ && !is_thread_of(pid_, tid)) {
            return ChildStop{tid, same_memory(pid_, tid)};
        }
        it = threads_.emplace(tid, TracedThread{}).first;
    }
    it->second.state = TracedThread::State::stopped;
    it->second.stop_signal = 0;
    it->second.in_system_call = event != 0 && event != PTRACE_EVENT_STOP;
    it->second.in_vfork = event == PTRACE_EVENT_VFORK;

    switch (event) {
    case 0:
        it->second.stop_signal = signal;
        if (signal == SIGTRAP) {
            return TrapStop{tid};
        }
        return SignalStop{tid, signal};
    case PTRACE_EVENT_STOP:
        if (signal == SIGTRAP) {
            return QuietStop{tid};
        }
        return GroupStop{tid, signal};
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK: {
        const Tid child = event_message(tid);
        if (early_children_.erase(child) == 0) {
            expected_children_.insert(child);
        }
        return BirthStop{tid, child};
    }
    case PTRACE_EVENT_EXEC: {
        const Tid former = event_message(tid);
        if (tid == pid_) {
            // The other threads went without a word, and their ids may be used anew.
            TracedThread self = it->second;
            absl::erase_if(threads_,
                           [](const auto& entry) { return !entry.second.is_child_process; });
            threads_.emplace(tid, self);
            std::erase_if(deferred_,
                          [this](const StopEvent& e) { return !threads_.contains(tid_of(e)); });
        }
        return ExecStop{tid, former};
    }
    default:
        return QuietStop{tid};
    }
}

} // namespace memleax
