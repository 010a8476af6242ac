// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/thread_signals.hpp"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

void ThreadSignals::on_resume(Tid tid) {
    if (const auto held = held_.find(tid); held != held_.end()) {
        for (const siginfo_t& info : held->second) {
            record_.owe(tid, info);
        }
    }
}

bool ThreadSignals::hold(Tid tid) {
    constexpr std::size_t kMostHeld = 32;
    siginfo_t info{};
    std::vector<siginfo_t>& held = held_[tid];
    if (held.size() >= kMostHeld || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0) {
        return false;
    }
    held.push_back(info);
    target_.drop_stop_signal(tid);
    return true;
}

bool ThreadSignals::send_held(Tid tid) {
    const auto held = held_.find(tid);
    if (held == held_.end() || held->second.empty()) {
        return false;
    }
    send_again(tid, held->second.front());
    held->second.erase(held->second.begin());
    if (held->second.empty()) {
        held_.erase(held);
    }
    return true;
}

void ThreadSignals::send_all_held() {
    for (const auto& [tid, signals] : held_) {
        for (const siginfo_t& info : signals) {
            send_again(tid, info);
        }
    }
    held_.clear();
}

void ThreadSignals::send_again(Tid tid, const siginfo_t& info) {
    record_.settle(tid, info.si_signo);
    const pid_t group = target_.parts().group_of(tid).value();
    if (syscall(SYS_rt_tgsigqueueinfo, group, tid.value(), info.si_signo, &info) == 0) {
        return;
    }
    // The kernel lets nobody queue what looks like its own, or like kill()'s
    // (rt_tgsigqueueinfo(2)), but in the signal's stop we may say what we like.
    if (syscall(SYS_tgkill, group, tid.value(), info.si_signo) == 0) {
        sent_again_[tid] = info;
    }
}

void ThreadSignals::restore_payload(Tid tid, int signal) {
    const auto it = sent_again_.find(tid);
    siginfo_t now{};
    if (it != sent_again_.end() && it->second.si_signo == signal &&
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &now) == 0 && now.si_code == SI_TKILL &&
        now.si_pid == getpid()) {
        ptrace(PTRACE_SETSIGINFO, tid.value(), nullptr, &it->second);
        sent_again_.erase(it);
    }
}

void ThreadSignals::let_run_on(Tid tid) {
    const int signal = target_.stop_signal(tid);
    target_.parts().tracer.queue().forget(tid);
    target_.resume(tid, signal);
}

void ThreadSignals::advance_to(Tid tid) {
    const bool quiet = !target_.parts().tracer.queue().any_of([tid](const TargetStop& stop) {
        return tid_of(stop.event) == tid && !std::holds_alternative<QuietStop>(stop.event);
    });
    const auto info = try_read_process_info(tid);
    if (quiet && target_.is_stopped(tid) && info &&
        (info->pending_signals & ~info->blocked_signals) != 0) {
        target_.parts().tracer.queue().forget(tid);
        target_.resume(tid);
        if (const auto event = target_.parts().waits.wait_for_stop(tid)) {
            target_.defer(*event);
        }
    }
}

// The interrupt is looked at before any other signal, and before the way back to the program
// (kernel/signal.c, get_signal).
void ThreadSignals::go_past_signal(Tid tid) {
    target_.interrupt(tid);
    target_.resume(tid, target_.stop_signal(tid));
}

bool ThreadSignals::deliver_first(Tid tid) {
    while (target_.stop_signal(tid) != 0) {
        target_.parts().tracer.queue().forget(tid);
        go_past_signal(tid);
        if (const auto event = target_.parts().waits.wait_for_stop(tid)) {
            target_.defer(*event);
        }
    }
    return target_.is_stopped(tid);
}

} // namespace memleax
