// SPDX-License-Identifier: GPL-3.0-or-later
// ThreadSignals: held back, and sent again.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

bool stops_by_default(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

} // namespace

bool ThreadSignals::stops(Tid tid, int signal) {
    return signal == SIGSTOP || (stops_by_default(signal) && !is_caught(tid, signal));
}

bool ThreadSignals::is_caught(Tid tid, int signal) {
    const auto process = signal != 0 ? try_read_process_info(tid) : std::nullopt;
    return process && (process->caught_signals & signal_bit(signal)) != 0;
}

// What stands in a stop is older than what has been held back.
bool ThreadSignals::hold(Tid tid) {
    constexpr std::size_t kMostHeld = 32;
    siginfo_t info{};
    const int signal = target_.stop_signal(tid);
    const auto before = held_.find(tid);
    if ((before != held_.end() && before->second.size() >= kMostHeld) ||
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0 || info.si_signo != signal ||
        !is_caught(tid, signal)) {
        return false;
    }
    Signals& held = held_[tid];
    held.insert(held.begin(), info);
    target_.drop_stop_signal(tid);
    return true;
}

std::uint64_t ThreadSignals::about_to_stop(Tid tid) {
    const auto process = try_read_process_info(tid);
    return process ? (process->pending_signals | process->shared_pending_signals) &
                         ~process->blocked_signals
                   : 0;
}

bool ThreadSignals::send_held(Tid tid) {
    const auto held = held_.find(tid);
    if (held == held_.end()) {
        return false;
    }
    const std::uint64_t coming = about_to_stop(tid);
    Signals& signals = held->second;
    const auto next = std::find_if(signals.begin(), signals.end(), [&](const siginfo_t& info) {
        return (coming & signal_bit(info.si_signo)) == 0;
    });
    if (next != signals.end() && send(tid, *next)) { // else at another time
        signals.erase(next);
        if (signals.empty()) {
            held_.erase(held);
        }
    }
    return true;
}

bool ThreadSignals::awaits_sent(Tid tid) const {
    const auto sent = sent_.find(tid);
    const auto process = sent != sent_.end() ? try_read_process_info(tid) : std::nullopt;
    return process &&
           std::any_of(sent->second.due.begin(), sent->second.due.end(),
                       [&process](const siginfo_t& info) {
                           return (process->pending_signals & signal_bit(info.si_signo)) != 0;
                       });
}

bool ThreadSignals::has_timely_held(Tid tid) {
    const auto held = held_.find(tid);
    return held != held_.end() && std::any_of(held->second.begin(), held->second.end(),
                                              [this, tid](const siginfo_t& info) {
                                                  return !comes_too_early(tid, info.si_signo);
                                              });
}

void ThreadSignals::send_held_to_running() {
    std::vector<Tid> running;
    for (const auto& [tid, signals] : held_) {
        if (!target_.is_stopped(tid)) {
            running.push_back(tid);
        }
    }
    for (const Tid tid : running) {
        (void)send_held(tid);
    }
}

// A thread that is let go of is owed nothing any more; these it is.
void ThreadSignals::note_late(const std::vector<Late>& late) {
    std::map<Tid, Signals> owed;
    for (const Late& each : late) {
        owed[each.tid].push_back(each.info);
    }
    for (auto& [tid, signals] : owed) {
        if (const auto held = held_.find(tid); held != held_.end()) {
            signals.insert(signals.end(), held->second.begin(), held->second.end());
        }
        record_.set_owed(tid, signals);
    }
}

// Its number may be another thread's since, even in another process. And who executes another
// program has no handlers any more: the old program's would have been called before (on_exec()).
bool ThreadSignals::is_still_for(const Late& late) {
    const auto thread = try_read_process_info(late.tid);
    return thread && thread->tgid == late.group && thread->start_time == late.start_time &&
           (!late.was_caught || stops_by_default(late.info.si_signo) ||
            (thread->caught_signals & signal_bit(late.info.si_signo)) != 0);
}

void ThreadSignals::send_late(std::vector<Late>* late) {
    note_late(*late);
    std::set<Tid> full; // one behind the other
    std::erase_if(*late, [&](const Late& each) {
        if (full.contains(each.tid)) {
            return false;
        }
        if (!is_still_for(each)) {
            record_.settle(each.tid, each.info);
            return true;
        }
        return send(each.tid, each.group, each.info) || !full.insert(each.tid).second;
    });
}

void ThreadSignals::wait_for_room() {
    constexpr timespec kPause{0, 20'000};
    nanosleep(&kPause, nullptr);
}

void ThreadSignals::give_up(const std::vector<Late>& late) {
    for (const Late& each : late) {
        log_warning("a signal that was held back, number {}, does not reach thread {}: as many as "
                    "its user may have are pending (ulimit -i)",
                    each.info.si_signo, each.tid.value());
    }
}

void ThreadSignals::on_exec(Tid tid) {
    unbegun_.erase(tid);
    if (const auto sent = sent_.find(tid); sent != sent_.end()) {
        Signals& late = of_former_[tid];
        for (const siginfo_t& info : sent->second.on_their_way) {
            if (!stops_by_default(info.si_signo)) {
                late.push_back(info);
            }
        }
        sent_.erase(sent);
    }
    const auto held = held_.find(tid);
    if (held == held_.end()) {
        return;
    }
    std::erase_if(held->second,
                  [](const siginfo_t& info) { return !stops_by_default(info.si_signo); });
    record_.set_owed(tid, held->second);
    if (held->second.empty()) {
        held_.erase(held);
    }
}

void ThreadSignals::send_again(Tid tid, const siginfo_t& info) {
    const auto held = held_.find(tid);
    const bool is_behind =
        held != held_.end() &&
        std::any_of(held->second.begin(), held->second.end(),
                    [&info](const siginfo_t& other) { return other.si_signo == info.si_signo; });
    if (is_behind || !send(tid, info)) {
        held_[tid].push_back(info);
    }
}

bool ThreadSignals::send(Tid tid, const siginfo_t& info) {
    return send(tid, target_.parts().group_of(tid), info);
}

bool ThreadSignals::send(Tid tid, Tid group, const siginfo_t& info) {
    // Before it is sent: should we die in between, the guardian would send it a second time.
    record_.settle(tid, info);
    siginfo_t seen = info;
    if (syscall(SYS_rt_tgsigqueueinfo, group.value(), tid.value(), info.si_signo, &info) != 0) {
        // The kernel lets nobody queue what looks like its own, or like kill()'s
        // (rt_tgsigqueueinfo(2)), but in the signal's stop we may say what we like.
        if (errno != EAGAIN &&
            syscall(SYS_tgkill, group.value(), tid.value(), info.si_signo) == 0) {
            seen = {};
            seen.si_signo = info.si_signo;
            seen.si_code = SI_TKILL;
            seen.si_pid = getpid();
            seen.si_uid = getuid();
        } else if (errno == EAGAIN) { // RLIMIT_SIGPENDING
            record_.owe(tid, info);
            return false;
        } else {
            return true; // the thread is gone
        }
    }
    Sent& sent = sent_[tid];
    sent.on_their_way.push_back(seen);
    sent.due.push_back(info);
    return true;
}

} // namespace memleax
