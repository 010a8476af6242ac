// SPDX-License-Identifier: GPL-3.0-or-later
// A stopped thread's signals: what it blocks, and what is sent to it once more.
#include <algorithm>
#include <csignal>

#include <poll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

std::optional<std::uint64_t> Target::signal_mask(Tid tid) const {
    std::uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid.value(), sizeof mask, &mask) != 0) {
        return std::nullopt;
    }
    return mask;
}

void Target::set_signal_mask(Tid tid, std::uint64_t mask) {
    ptrace(PTRACE_SETSIGMASK, tid.value(), sizeof mask, &mask);
}

bool Target::has_temporary_mask(Tid tid) const {
    const auto info = try_read_process_info(tid);
    // PTRACE_GETSIGMASK gives the mask that the call will put back, /proc the one that is in force.
    return !info || signal_mask(tid) != info->blocked_signals;
}

Tid Target::group_of(Tid tid) const {
    const auto it = threads_.find(tid);
    if (it == threads_.end() || !it->second.is_child_process) {
        return pid_;
    }
    const auto info = try_read_process_info(tid);
    return info ? info->tgid : tid;
}

void Target::consume_stop(Tid tid) {
    const int signal = stop_signal(tid);
    siginfo_t info{};
    if (signal != 0 &&
        !(signal == SIGTRAP && handler_ != nullptr && handler_->move_hit_to_slot(tid)) &&
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0) {
        record_->settle(tid, signal); // it may have been taken before
        record_->owe(tid, info);
    }
    Tracer::consume_stop(tid);
}

bool Target::hold_signal(Tid tid) {
    constexpr std::size_t kMostHeld = 32;
    siginfo_t info{};
    std::vector<siginfo_t>& held = held_[tid];
    if (held.size() >= kMostHeld || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0) {
        return false;
    }
    held.push_back(info);
    drop_stop_signal(tid);
    return true;
}

bool Target::send_held(Tid tid) {
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

void Target::send_all_held() {
    for (const auto& [tid, signals] : held_) {
        for (const siginfo_t& info : signals) {
            send_again(tid, info);
        }
    }
    held_.clear();
}

void Target::send_again(Tid tid, const siginfo_t& info) {
    record_->settle(tid, info.si_signo);
    const pid_t group = group_of(tid).value();
    if (syscall(SYS_rt_tgsigqueueinfo, group, tid.value(), info.si_signo, &info) == 0) {
        return;
    }
    // The kernel lets nobody queue what looks like its own, or like kill()'s
    // (rt_tgsigqueueinfo(2)), but in the signal's stop we may say what we like.
    if (syscall(SYS_tgkill, group, tid.value(), info.si_signo) == 0) {
        sent_again_[tid] = info;
    }
}

void Target::restore_payload(Tid tid, int signal) {
    const auto it = sent_again_.find(tid);
    siginfo_t now{};
    if (it != sent_again_.end() && it->second.si_signo == signal &&
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &now) == 0 && now.si_code == SI_TKILL &&
        now.si_pid == getpid()) {
        ptrace(PTRACE_SETSIGINFO, tid.value(), nullptr, &it->second);
        sent_again_.erase(it);
    }
}

void Target::let_run_on(Tid tid) {
    const int signal = stop_signal(tid);
    tracer_.forget_deferred(tid);
    resume(tid, signal);
}

void Target::advance_to_signal(Tid tid) {
    const bool quiet = std::all_of(
        tracer_.deferred_.begin(), tracer_.deferred_.end(), [tid](const Tracer::Stop& stop) {
            return tid_of(stop.event) != tid || std::holds_alternative<QuietStop>(stop.event);
        });
    const auto info = try_read_process_info(tid);
    if (quiet && is_stopped(tid) && info && (info->pending_signals & ~info->blocked_signals) != 0) {
        tracer_.forget_deferred(tid);
        resume(tid);
        if (const auto event = wait_for_stop(tid)) {
            defer(*event);
        }
    }
}

// The interrupt is looked at before any other signal, and before the way back to the program
// (kernel/signal.c, get_signal).
void Target::go_past_signal(Tid tid) {
    interrupt(tid);
    resume(tid, stop_signal(tid));
}

bool Target::deliver_first(Tid tid) {
    while (stop_signal(tid) != 0) {
        tracer_.forget_deferred(tid);
        go_past_signal(tid);
        if (const auto event = wait_for_stop(tid)) {
            defer(*event);
        }
    }
    return is_stopped(tid);
}

int Target::stop_signal(Tid tid) const {
    const auto it = threads_.find(tid);
    return it != threads_.end() ? it->second.stop_signal : 0;
}

void Target::drop_stop_signal(Tid tid) {
    const auto it = threads_.find(tid);
    if (it != threads_.end()) {
        it->second.stop_signal = 0;
    }
}

bool Target::dumps_core() {
    constexpr int kLooks = 200; // of a millisecond; it is a matter of microseconds
    for (int i = 0; core_signal_ && i < kLooks; ++i) {
        const auto& [tid, signal] = *core_signal_;
        const auto info = try_read_process_info(tid);
        if (info && info->dumps_core) {
            return true;
        }
        if (!info || info->has_ended() ||
            ((info->caught_signals | info->ignored_signals) & signal_bit(signal)) != 0) {
            break; // or it is over
        }
        poll(nullptr, 0, 1); // the signal is on its way
    }
    core_signal_.reset();
    return false;
}

} // namespace memleax
