// SPDX-License-Identifier: GPL-3.0-or-later
// System calls that end with EINTR because of us. Most are begun again by the kernel, when a stop
// was all that happened (ERESTARTSYS and its like); these are not (signal(7), "Interruption of
// system calls and library functions by stop signals"), and there are programs that take EINTR for
// an error, as they have no signal handler and so never saw one.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "memleax/target/target.hpp"

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

bool Target::is_at_system_call(CodeAddr pc) {
    std::array<std::byte, arch::kSyscallBytes.size()> code{};
    return memory_.try_read(pc.as_data(), code) == code.size() &&
           std::equal(code.begin(), code.end(), arch::kSyscallBytes.begin(),
                      [](std::byte a, std::uint8_t b) { return a == std::byte{b}; });
}

void Target::finish_interruption(Tid tid, arch::Registers* regs) {
    if constexpr (arch::kResultReplacesArgument) {
        const auto thread = threads_.find(tid);
        if (thread == threads_.end()) {
            return;
        }
        // A signal that came by itself: a thread at its call has been in it, but for a moment that
        // hardly any is seen in.
        const auto info = try_read_process_info(tid);
        const int signal = thread->second.stop_signal;
        if (signal != 0) {
            if (info && (info->caught_signals & signal_bit(signal)) != 0 &&
                is_at_system_call(arch::pc(*regs))) {
                arch::end_interrupted_call(*regs);
            }
            return;
        }
        const auto& was = thread->second.asleep_in;
        constexpr std::int64_t kInstruction = arch::kSyscallBytes.size();
        // Else it has not begun that call, or has ended it.
        if (was && was->system_call && was->pc == arch::pc(*regs) + kInstruction &&
            was->sp == arch::sp(*regs)) {
            arch::continue_interrupted_call(*regs);
        }
    }
}

void Target::begin_interrupted_call_again(Tid tid, int signal) {
    arch::Registers regs{};
    if (!get_registers(tid, &regs)) {
        return;
    }
    const auto call = arch::call_that_failed_with(regs, EINTR);
    if (!call || !can_begin_again(*call)) {
        return;
    }
    // A handler that is about to run is a reason for EINTR. One whose signal comes while the thread
    // is on its way back into its call is, too (end_call_begun_again); but not with the temporary
    // mask of epoll_pwait, which is in force within the call only.
    const auto info = try_read_process_info(tid);
    if (!info || (signal != 0 && !is_ignored(*info, signal)) || has_temporary_mask(tid)) {
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
        const auto thread = threads_.find(tid);
        const auto was = thread != threads_.end() ? thread->second.asleep_in : std::nullopt;
        if (!was || was->system_call != call || was->pc != arch::pc(regs) ||
            was->sp != arch::sp(regs)) {
            return;
        }
        first_argument = was->arguments[0];
    }
    if (is_at_system_call(arch::pc(regs) - static_cast<std::int64_t>(arch::kSyscallBytes.size()))) {
        arch::begin_system_call_again(regs, first_argument);
        if (set_registers(tid, regs)) {
            threads_[tid].begun_again = TracedThread::CallBegunAgain{arch::pc(regs), arch::sp(regs),
                                                                     arch::argument(regs, 0)};
        }
    }
}

void Target::end_call_begun_again(Tid tid, int signal) {
    const auto thread = threads_.find(tid);
    if (thread == threads_.end() || !thread->second.begun_again) {
        return;
    }
    const auto info = try_read_process_info(tid);
    arch::Registers regs{};
    if (!info || (info->caught_signals & signal_bit(signal)) == 0 || !get_registers(tid, &regs)) {
        return;
    }
    // If it has been in the call since, and stands before another one that is just the same, that
    // one might have ended so as well.
    const auto call = *std::exchange(thread->second.begun_again, std::nullopt);
    if (arch::pc(regs) == call.pc && arch::sp(regs) == call.sp &&
        arch::argument(regs, 0) == call.first_argument) {
        arch::fail_system_call(regs, EINTR);
        set_registers(tid, regs);
    }
}

} // namespace memleax
