// SPDX-License-Identifier: GPL-3.0-or-later
#include "interrupted_calls.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "call_limit.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "memleax/proc/thread_work.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

namespace {

/// Has this signal no effect, by the target's wish or by default? (Never one that stops.)
bool is_ignored(const ProcessInfo& info, int signal) {
    static constexpr std::array kIgnoredByDefault{SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
    return (info.ignored_signals & signal_bit(signal)) != 0 ||
           ((info.caught_signals & signal_bit(signal)) == 0 &&
            std::find(kIgnoredByDefault.begin(), kIgnoredByDefault.end(), signal) !=
                kIgnoredByDefault.end());
}

} // namespace

void InterruptedCalls::on_interrupt(Tid tid) {
    if constexpr (arch::kResultReplacesArgument) {
        const TracedThread* thread = threads_.find(tid);
        if (thread == nullptr || thread->state != TracedThread::State::running) {
            return;
        }
        if (const auto kernel = try_read_kernel_state(pid_, tid)) {
            asleep_in_.insert_or_assign(tid, *kernel);
        } else {
            asleep_in_.erase(tid);
        }
    }
}

bool InterruptedCalls::is_at_system_call(CodeAddr pc) {
    std::array<std::byte, arch::kSyscallBytes.size()> code{};
    return memory_.try_read(pc.as_data(), code) == code.size() &&
           std::equal(code.begin(), code.end(), arch::kSyscallBytes.begin(),
                      [](std::byte a, std::uint8_t b) { return a == std::byte{b}; });
}

void InterruptedCalls::finish(Tid tid, arch::Registers* regs) {
    if constexpr (arch::kResultReplacesArgument) {
        if (threads_.find(tid) == nullptr) {
            return;
        }
        // A signal that came by itself: a thread at its call has been in it, but for a moment that
        // hardly any is seen in.
        const auto info = try_read_process_info(tid);
        const int signal = threads_.stop_signal(tid);
        if (signal != 0) {
            if (info && (info->caught_signals & signal_bit(signal)) != 0 &&
                is_at_system_call(arch::pc(*regs))) {
                arch::end_interrupted_call(*regs);
            }
            return;
        }
        const auto was = asleep_in_.find(tid);
        constexpr std::int64_t kInstruction = arch::kSyscallBytes.size();
        // Else it has not begun that call, or has ended it.
        if (was != asleep_in_.end() && was->second.system_call &&
            was->second.pc == arch::pc(*regs) + kInstruction && was->second.sp == arch::sp(*regs)) {
            arch::continue_interrupted_call(*regs);
        }
    }
}

bool InterruptedCalls::was_asleep(Tid tid, const arch::Registers& regs) const {
    if constexpr (arch::kResultReplacesArgument) {
        // Of what is to be done with the call the registers tell nothing any more: it is to begin
        // again, or has ended.
        const auto was = asleep_in_.find(tid);
        if (was == asleep_in_.end() || !was->second.system_call ||
            was->second.sp != arch::sp(regs)) {
            return false;
        }
        constexpr std::int64_t kInstruction = arch::kSyscallBytes.size();
        return was->second.pc == arch::pc(regs) + kInstruction ||
               (was->second.pc == arch::pc(regs) &&
                arch::call_that_failed_with(regs, EINTR).has_value());
    }
    // What the kernel has in the place of a result then; it makes of it another call, or EINTR,
    // when the thread goes on (include/linux/errno.h: ERESTARTSYS and its like). A call that does
    // not sleep has none of these.
    constexpr std::array kErrors{EINTR, 512, 513, 514, 516};
    return std::any_of(kErrors.begin(), kErrors.end(), [&regs](int error) {
        return arch::call_that_failed_with(regs, error).has_value();
    });
}

void InterruptedCalls::begin_again(Tid tid, int signal) {
    arch::Registers regs{};
    if (!StoppedThread(tid).get_registers(&regs)) {
        return;
    }
    auto call = arch::call_that_failed_with(regs, EINTR);
    if (call && !can_begin_again(*call)) {
        return;
    }
    // The kernel would go on with it by restart_syscall(2). A seccomp filter may end the process
    // for that (OpenSSH's does), and not for the call itself, with all of its time limit.
    constexpr int kContinued = 516; // ERESTART_RESTARTBLOCK
    const bool is_continued = !arch::kResultReplacesArgument && !call;
    if (is_continued) {
        call = arch::call_that_failed_with(regs, kContinued);
    }
    if (!call) {
        return;
    }
    // A handler that is about to run is a reason for EINTR. One whose signal comes while the thread
    // is on its way back into its call is, too (end_begun_again); but not with the temporary
    // mask of epoll_pwait, which is in force within the call only.
    const auto info = try_read_process_info(tid);
    if (!info || (signal != 0 && !is_ignored(*info, signal)) ||
        (is_continued && info->seccomp_mode == 0) || StoppedThread(tid).has_temporary_mask()) {
        return;
    }
    for (int other = 1; other < NSIG; ++other) {
        const std::uint64_t pending = info->pending_signals | info->shared_pending_signals;
        if ((pending & ~info->blocked_signals & signal_bit(other)) != 0 &&
            !is_ignored(*info, other)) {
            return;
        }
    }
    // Where the registers do not tell the call's first argument, it was noted.
    std::uint64_t first_argument = 0;
    if constexpr (arch::kResultReplacesArgument) {
        const auto was = asleep_in_.find(tid);
        if (was == asleep_in_.end() || was->second.system_call != call ||
            was->second.pc != arch::pc(regs) || was->second.sp != arch::sp(regs)) {
            return;
        }
        first_argument = was->second.arguments[0];
    }
    if (is_at_system_call(arch::pc(regs) - static_cast<std::int64_t>(arch::kSyscallBytes.size()))) {
        const auto errnum = ends_with(tid, *call, regs);
        arch::begin_system_call_again(regs, first_argument);
        if (errnum) {
            begun_again_.erase(tid); // it is over
            arch::fail_system_call(regs, *errnum);
            StoppedThread(tid).set_registers(regs);
            return;
        }
        if (StoppedThread(tid).set_registers(regs)) {
            begun_again_.insert_or_assign(
                tid, CallBegunAgain{arch::pc(regs), arch::sp(regs), arch::argument(regs, 0)});
        }
    }
}

// Begun anew it has all of its limit, each time: signals that the target ignores, a few in each of
// its limits, would keep it waiting for ever. Whether it is still the same call tell its times of
// sleep: one in it since then, and one in this stop.
std::optional<int> InterruptedCalls::ends_with(Tid tid, long call, const arch::Registers& regs) {
    const auto limit = limit_of(call, regs, memory_);
    if (!limit) {
        return std::nullopt;
    }
    constexpr std::uint64_t kSleepsBetween = 2;
    const std::uint64_t sleeps = times_slept(thread_folder(pid_, tid));
    const MonotonicNs now = monotonic_now();
    Waiting& waits = waiting_[tid];
    const bool is_same = waits.call == call && waits.pc == arch::pc(regs) &&
                         waits.sp == arch::sp(regs) && sleeps - waits.sleeps <= kSleepsBetween;
    if (!is_same) {
        waits = {call, arch::pc(regs), arch::sp(regs), now, sleeps};
    }
    waits.sleeps = sleeps;
    if (now.value() - waits.since.value() < limit->ns) {
        return std::nullopt;
    }
    waiting_.erase(tid);
    return limit->errnum;
}

void InterruptedCalls::end_begun_again(Tid tid, int signal) {
    const auto entry = begun_again_.find(tid);
    if (entry == begun_again_.end()) {
        return;
    }
    const auto info = try_read_process_info(tid);
    arch::Registers regs{};
    if (!info || (info->caught_signals & signal_bit(signal)) == 0 ||
        !StoppedThread(tid).get_registers(&regs)) {
        return;
    }
    // If it has been in the call since, and stands before another one that is just the same, that
    // one might have ended so as well.
    const CallBegunAgain call = entry->second;
    begun_again_.erase(entry);
    if (arch::pc(regs) == call.pc && arch::sp(regs) == call.sp &&
        arch::argument(regs, 0) == call.first_argument) {
        arch::fail_system_call(regs, EINTR);
        StoppedThread(tid).set_registers(regs);
    }
}

} // namespace memleax
