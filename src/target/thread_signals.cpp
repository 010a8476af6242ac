// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/thread_signals.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

int ThreadSignals::on_resume(Tid tid, int signal) {
    if (signal != 0 && !of_former_.empty() && is_of_former(tid, signal)) {
        signal = 0;
    }
    if (signal != 0 && comes_too_early(tid, signal) && hold(tid)) {
        signal = 0;
    }
    const auto held = held_.find(tid);
    record_.set_owed(tid, held != held_.end() ? std::span<const siginfo_t>(held->second)
                                              : std::span<const siginfo_t>());
    return signal;
}

// ---- In order -----------------------------------------------------------------------------------

namespace {

/// Does it look like this one that was sent? In another PID namespace the sender is 0, and in
/// another user namespace the user another number (kernel/signal.c, send_signal_locked).
bool may_be(const siginfo_t& sent, const siginfo_t& seen) {
    return sent.si_signo == seen.si_signo && sent.si_code == seen.si_code &&
           (sent.si_pid == seen.si_pid || seen.si_pid == 0) &&
           sent.si_value.sival_ptr == seen.si_value.sival_ptr;
}

template <typename Signals> auto find_number(Signals& signals, int number) {
    return std::find_if(signals.begin(), signals.end(),
                        [number](const siginfo_t& info) { return info.si_signo == number; });
}

} // namespace

std::optional<siginfo_t> ThreadSignals::exchange_for_held(Tid tid, const siginfo_t& now) {
    const auto held = held_.find(tid);
    if (held == held_.end()) {
        return std::nullopt;
    }
    Signals& signals = held->second;
    const auto older = find_number(signals, now.si_signo);
    if (older == signals.end()) {
        return std::nullopt;
    }
    const siginfo_t oldest = *older;
    signals.erase(older);
    if (now.si_signo >= kFirstQueuedSignal) {
        signals.push_back(now);
    }
    record_.set_owed(tid, signals);
    if (signals.empty()) {
        held_.erase(held);
    }
    return oldest;
}

std::optional<siginfo_t> ThreadSignals::exchange_for_sent(Tid tid, Sent* sent,
                                                          const siginfo_t& now) {
    const auto due = find_number(sent->due, now.si_signo);
    if (due == sent->due.end()) {
        return std::nullopt;
    }
    const siginfo_t oldest = *due;
    sent->due.erase(due);
    const auto own = std::find_if(sent->on_their_way.begin(), sent->on_their_way.end(),
                                  [&now](const siginfo_t& info) { return may_be(info, now); });
    if (own != sent->on_their_way.end()) {
        sent->on_their_way.erase(own);
        return oldest;
    }
    const auto info = try_read_process_info(tid);
    if (info && (info->pending_signals & signal_bit(now.si_signo)) != 0) { // it has overtaken ours
        sent->due.push_back(exchange_for_held(tid, now).value_or(now));
        return oldest;
    }
    // Ours was taken without a stop (sigwait), or ignored.
    sent->on_their_way.erase(find_number(sent->on_their_way, now.si_signo));
    return std::nullopt;
}

bool ThreadSignals::is_of_former(Tid tid, int signal) {
    const auto late = of_former_.find(tid);
    siginfo_t now{};
    if (late == of_former_.end() || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &now) != 0 ||
        now.si_signo != signal) {
        return false;
    }
    const auto it = std::find_if(late->second.begin(), late->second.end(),
                                 [&now](const siginfo_t& info) { return may_be(info, now); });
    if (it == late->second.end()) {
        return false;
    }
    late->second.erase(it);
    if (late->second.empty()) {
        of_former_.erase(late);
    }
    return true;
}

void ThreadSignals::give_oldest(Tid tid, int signal) {
    siginfo_t now{};
    if (ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &now) != 0 || now.si_signo != signal ||
        (is_exception(signal) && now.si_code > 0)) { // of what the thread has just executed
        return;
    }
    std::optional<siginfo_t> oldest;
    if (const auto sent = sent_.find(tid); sent != sent_.end()) {
        oldest = exchange_for_sent(tid, &sent->second, now);
        if (sent->second.due.empty()) {
            sent_.erase(sent);
        }
    }
    if (!oldest) {
        oldest = exchange_for_held(tid, now);
    }
    if (oldest) {
        ptrace(PTRACE_SETSIGINFO, tid.value(), nullptr, &*oldest);
    }
}

// ---- Too early ----------------------------------------------------------------------------------

bool ThreadSignals::is_at_unbegun_handler(const arch::Registers& regs, int signal) {
    constexpr int kMostHandlers = 64; // one of each number; further ones are no news
    std::optional<arch::Registers> at = regs;
    for (int i = 0; at && i < kMostHandlers; ++i) {
        std::array<std::byte, arch::kSignalFrameReadBytes> frame{};
        if (target_.memory().try_read(arch::sp(*at) + arch::kSignalFrameReturnWord, frame) == 0 ||
            !arch::begins_signal_handler(*at, frame)) {
            return false;
        }
        if (arch::argument(*at, 0) == static_cast<std::uint64_t>(signal)) {
            return true;
        }
        at = arch::registers_from_signal_frame(frame);
    }
    return false;
}

bool ThreadSignals::comes_too_early(Tid tid, int signal) {
    constexpr std::int64_t kMostNs = kNsPerSecond;
    arch::Registers regs;
    if (is_exception(signal) || !StoppedThread(tid).get_registers(&regs) ||
        !is_at_unbegun_handler(regs, signal)) {
        unbegun_.erase(tid);
        return false;
    }
    const auto process = try_read_process_info(tid);
    if (!process || (process->caught_signals & signal_bit(signal)) == 0) {
        return false; // it stops the process, or ends it
    }
    const MonotonicNs now = monotonic_now();
    Unbegun& unbegun = unbegun_[tid];
    if (unbegun.pc != arch::pc(regs) || unbegun.sp != arch::sp(regs)) {
        unbegun = {arch::pc(regs), arch::sp(regs), now};
    }
    return now.value() - unbegun.since.value() < kMostNs;
}

std::optional<StopEvent> ThreadSignals::next_stop_at_once(Tid tid) {
    if (!unbegun_.contains(tid) || target_.has_deferred(tid)) {
        return std::nullopt;
    }
    for (int i = SpinPolicy::polls(); i >= 0; --i) {
        const auto event = target_.parts().waits.wait_for(tid, WNOHANG);
        if (event && (std::holds_alternative<ThreadGone>(*event) ||
                      std::holds_alternative<ExecStop>(*event))) {
            target_.parts().tracer.put_off({&target_, *event}); // behind what it has claimed
            return std::nullopt;
        }
        if (event) {
            return event;
        }
    }
    return std::nullopt;
}

// ---- Let through --------------------------------------------------------------------------------

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
