// SPDX-License-Identifier: GPL-3.0-or-later
#include "stepper.hpp"

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "deferred_stops.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "ptrace_options.hpp"
#include "signals_held_back.hpp"
#include "target_parts.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

/// Raised by the code of the call itself, which would raise it again? One that was raised before,
/// where the thread was then, is put aside once.
bool is_fault(Tid tid, int signal, AddrRange code, const DeferredStops& aside) {
    siginfo_t info{};
    if ((signal != SIGSEGV && signal != SIGBUS && signal != SIGILL) ||
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0 || info.si_code <= 0) {
        return false;
    }
    return code.contains(reinterpret_cast<std::uintptr_t>(info.si_addr)) || aside.has(signal);
}

AddrRange system_call_at(CodeAddr instruction) {
    return AddrRange::at(instruction, arch::kSyscallBytes.size());
}

/// Does the thread's own handler get this system call (PR_SET_SYSCALL_USER_DISPATCH, since Linux
/// 5.11; Wine's)? Then none is made for us. One of its own may have been raised before.
bool is_dispatched(Tid tid, int signal, AddrRange code) {
    constexpr int kUserDispatch = 2; // SYS_USER_DISPATCH, which libraries' headers may lack
    siginfo_t info{};
    if (signal != SIGSYS || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0 ||
        info.si_code != kUserDispatch) {
        return false;
    }
    const auto behind = reinterpret_cast<std::uintptr_t>(info.si_call_addr);
    return behind > code.begin && behind <= code.end;
}

Error not_dispatched_to_kernel(Tid tid) {
    return Error(fmt::format("thread {} has its system calls dispatched to a handler of its own "
                             "(PR_SET_SYSCALL_USER_DISPATCH)",
                             tid.value()));
}

/// Is it the stop at the end of a single step? After a system call some kernels make it up as if by
/// a user who has no pid (user_single_step_report).
bool is_step_trap(Tid tid, int signal) {
    siginfo_t info{};
    return signal == SIGTRAP && ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
           (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT ||
            (info.si_code == SI_USER && info.si_pid == 0));
}

} // namespace

Result<void> Stepper::step(Tid tid) {
    const SignalsHeldBack hold(tid, record_, Steps::yes);
    DeferredStops aside(tid, record_);
    for (int stop = 0;;) {
        if (ptrace(PTRACE_SINGLESTEP, tid.value(), nullptr, std::exchange(stop, 0)) != 0) {
            return thread_ended(tid);
        }
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) {
            return thread_ended(tid);
        }
        if ((*status >> 16) != 0) {
            aside.stop(); // an interrupt or a group-stop came first
            continue;
        }
        const int signal = WSTOPSIG(*status);
        if (is_step_trap(tid, signal)) {
            break;
        }
        siginfo_t info{};
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info);
        if (info.si_code > 0) {
            if (signal != SIGTRAP) {
                threads_[tid].stop_signal = signal; // the instruction faulted
                target_.defer(SignalStop{tid, signal});
            }
            break;
        }
        stop = aside.signal(); // SIGSTOP cannot be held back, and SIGTRAP must not be
    }
    aside.give_back(target_);
    return {};
}

// Without a single step: should we die in the middle, the thread would go on stepping. The stops
// used here leave nothing behind: the kernel sends "SIGTRAP|0x80" to a thread that it lets out of a
// system call stop, which is no signal (kernel/signal.c, valid_signal()).
Result<void> Stepper::run_system_call(Tid tid, CodeAddr instruction,
                                      const std::optional<StandInSignal>& stand_in) {
    DeferredStops aside(tid, record_);
    const Patience patience(StopWait::kMostMsUntilItRuns);
    bool entered = false;
    bool enters = false; ///< it is in the stop before the call
    int stop = 0;        ///< a signal that stops the process
    for (bool done = false; !done;) {
        // Once it is in the call, it is interrupted on its way out, or gets the stand-in there. In
        // these stops, unlike in that of the call's end, the kernel looks whether the registers ask
        // for a restart of the call that the thread was in before.
        if (entered && !stand_in) {
            target_.interrupt(tid);
        }
        const int sent = enters && stand_in ? stand_in->number() : std::exchange(stop, 0);
        if (ptrace(entered ? PTRACE_CONT : PTRACE_SYSCALL, tid.value(), nullptr, sent) != 0) {
            return thread_ended(tid);
        }
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) {
            return thread_ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        enters = signal == kSystemCallStop;
        if (enters) {
            entered = true;
        } else if ((*status >> 16) == 0) {
            done = entered && stand_in && signal == stand_in->number();
            if (is_dispatched(tid, signal, system_call_at(instruction))) {
                aside.give_back(target_);
                return not_dispatched_to_kernel(tid);
            }
            if (is_fault(tid, signal, system_call_at(instruction), aside)) {
                aside.give_back(target_);
                return Error(fmt::format("thread {} cannot execute our system call", tid.value()),
                             EFAULT);
            }
            if (!done || !StandInSignal::is_ours(tid)) {
                stop = aside.signal();
            }
        } else {
            // In a stopped process (SIGSTOP) each such stop is a group-stop.
            done = entered && !stand_in && has_left(tid, instruction);
            if (signal != SIGTRAP || !done) {
                aside.stop();
            }
            if (!entered && patience.is_over()) {
                aside.give_back(target_);
                return Error(fmt::format("thread {} does not run now", tid.value()), EAGAIN);
            }
        }
    }
    aside.give_back(target_);
    return {};
}

Result<void> Stepper::run_calls(Tid tid, AddrRange code, const StandInSignal& stand_in) {
    DeferredStops aside(tid, record_);
    const Patience patience(StopWait::kMostMsUntilItRuns);
    int stop = 0;
    for (bool done = false; !done;) {
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, std::exchange(stop, 0)) != 0) {
            return thread_ended(tid);
        }
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) {
            return thread_ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        arch::Registers regs;
        if (!StoppedThread(tid).get_registers(&regs)) {
            return thread_ended(tid);
        }
        if ((*status >> 16) != 0) { // an interrupt or a group-stop came first
            aside.stop();
            if (arch::pc(regs).value() == code.begin && patience.is_over()) {
                aside.give_back(target_);
                return Error(fmt::format("thread {} does not run now", tid.value()), EAGAIN);
            }
            continue;
        }
        done = signal == stand_in.number() && arch::pc(regs).value() == code.end;
        if (is_dispatched(tid, signal, code)) {
            aside.give_back(target_);
            return not_dispatched_to_kernel(tid);
        }
        if (is_fault(tid, signal, code, aside)) {
            aside.give_back(target_);
            return Error(fmt::format("thread {} cannot execute our system calls", tid.value()),
                         EFAULT);
        }
        if (!done || !StandInSignal::is_sent_by_itself(tid)) {
            stop = aside.signal();
        }
    }
    aside.give_back(target_);
    return {};
}

// An interrupt that is pending when the call begins makes it fail (kernel/fork.c, copy_process:
// ERESTARTNOINTR), so the thread is asked for its stop behind the call only when that has been
// made: in the event's stop, or, if there is no child, in that of the call's end.
Result<CloneMade> Stepper::run_clone(Tid tid, CodeAddr instruction) {
    const SignalsHeldBack hold(tid, record_, Steps::no);
    DeferredStops aside(tid, record_);
    const Patience patience(StopWait::kMostMsUntilItRuns);
    CloneMade made;
    enum { before, within, behind } at = before;
    int stop = 0;
    for (bool done = false; !done;) {
        if (at == behind) {
            target_.interrupt(tid);
        }
        if (ptrace(at == behind ? PTRACE_CONT : PTRACE_SYSCALL, tid.value(), nullptr,
                   std::exchange(stop, 0)) != 0) {
            return thread_ended(tid);
        }
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) {
            return thread_ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        const int event = *status >> 16;
        if (signal == kSystemCallStop) {
            at = at == before ? within : behind;
        } else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) {
            unsigned long child = 0;
            ptrace(PTRACE_GETEVENTMSG, tid.value(), nullptr, &child);
            made.child = Tid(static_cast<int>(child));
            at = behind;
        } else if (event == 0 && is_dispatched(tid, signal, system_call_at(instruction))) {
            aside.give_back(target_);
            return not_dispatched_to_kernel(tid);
        } else if (event == 0) {
            stop = aside.signal(); // SIGSTOP cannot be held back
        } else {
            done = at == behind;
            if (signal != SIGTRAP || !done) {
                aside.stop();
            }
            if (at == before && patience.is_over()) {
                aside.give_back(target_);
                return Error(fmt::format("thread {} does not run now", tid.value()), EAGAIN);
            }
        }
    }
    aside.give_back(target_);
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return thread_ended(tid);
    }
    made.result = arch::pc(regs) != instruction ? arch::system_call_result(regs) : -EAGAIN;
    return made;
}

std::optional<SystemCallMade>
Stepper::follow_system_call(Tid tid, long number, std::uint64_t first_argument,
                            const std::function<void(const SystemCallMade&)>& enter) {
    std::optional<SignalsHeldBack> hold;
    hold.emplace(tid, record_, Steps::yes);
    DeferredStops aside(tid, record_);
    std::optional<SystemCallMade> made;
    bool sets_mask = false; // by a call before that, as musl's sigaction(3) does at first
    int stop = 0;
    // Out of the call as run_system_call() goes: a stop at its end would not let us replace all
    // registers (on arm64 the kernel keeps x7 for itself there).
    for (bool done = false; !done;) {
        if (made) {
            target_.interrupt(tid);
        }
        if (ptrace(made ? PTRACE_CONT : PTRACE_SYSCALL, tid.value(), nullptr,
                   std::exchange(stop, 0)) != 0) {
            return std::nullopt;
        }
        const auto status = target_.parts().waits.await_status(tid);
        arch::Registers regs{};
        if (!status || !StoppedThread(tid).get_registers(&regs)) {
            return std::nullopt;
        }
        const int signal = WSTOPSIG(*status);
        if (signal == kSystemCallStop && sets_mask) { // and has set it
            sets_mask = false;
            hold.emplace(tid, record_, Steps::yes);
        } else if (signal == kSystemCallStop &&
                   arch::system_call_number(regs) == SYS_rt_sigprocmask) {
            sets_mask = true;
            hold.reset();
        } else if (signal == kSystemCallStop) {
            if (arch::system_call_number(regs) != number ||
                arch::system_call_argument(regs, 0) != first_argument) {
                break;
            }
            made.emplace();
            for (unsigned i = 0; i < made->arguments.size(); ++i) {
                made->arguments[i] = arch::system_call_argument(regs, i);
            }
            enter(*made);
        } else if ((*status >> 16) != 0) {
            done = made.has_value();
            if (done) {
                made->result = arch::system_call_result(regs);
            }
            if (signal != SIGTRAP || !done) {
                aside.stop();
            }
        } else if (siginfo_t info{}; ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
                                     info.si_code > 0 && !made) {
            threads_[tid].stop_signal = signal; // a breakpoint, or an instruction that faults
            target_.consume_stop(tid);
            target_.defer(signal == SIGTRAP ? StopEvent(TrapStop{tid}) : SignalStop{tid, signal});
            done = true;
        } else {
            stop = aside.signal(); // SIGSTOP cannot be held back, and SIGTRAP must not be
        }
    }
    aside.give_back(target_);
    return made;
}

bool Stepper::has_left(Tid tid, CodeAddr instruction) {
    arch::Registers regs;
    return !StoppedThread(tid).get_registers(&regs) || arch::pc(regs) != instruction;
}

Result<void> Stepper::settle(Tid tid) {
    // No signal comes before the interrupt (kernel/signal.c, get_signal), so that none need be held
    // back. The thread has its own registers: with a mask of ours it would run on should we die,
    // and system(3), which restores what it has read, would keep it for good.
    DeferredStops aside(tid, record_);
    for (int stop = 0;;) {
        target_.interrupt(tid);
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, std::exchange(stop, 0)) != 0) {
            return thread_ended(tid);
        }
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) {
            return thread_ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        if ((*status >> 16) != 0) {
            if (signal != SIGTRAP) {
                aside.stop();
            }
            break;
        }
        stop = aside.signal();
    }
    aside.give_back(target_);
    return {};
}

} // namespace memleax
