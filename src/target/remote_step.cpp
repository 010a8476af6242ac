// SPDX-License-Identifier: GPL-3.0-or-later
// Making a stopped thread go on under our eyes: by one instruction, through one system call, or to
// its next stop.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "exec_stop.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/freezer.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

/// With PTRACE_O_TRACESYSGOOD.
constexpr int kSystemCallStop = SIGTRAP | 0x80;

enum class Steps { no, yes };

/// A thread that is frozen (cgroup v2) does not run before it is thawed, but stops if it is asked.
constexpr std::int64_t kMostMsUntilItRuns = 5000;

/// Blocks all signals of a stopped thread but those that an instruction raises itself (SIGTRAP only
/// if it is stepped): an instruction that raises a blocked one makes the kernel kill the process
/// (force_sig). What is blocked stays pending, with its siginfo, and comes after the mask is back.
/// So do those that the thread has blocked itself, and that were sent already; SIGTRAP excepted,
/// which a step raises for certain.
class SignalsHeldBack {
  public:
    SignalsHeldBack(Tid tid, RecoveryRecord& record, Steps steps) : tid_(tid), record_(record) {
        held_ = ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof mask_, &mask_) == 0;
        std::uint64_t blocked = ~(kExceptionSignals & ~kTrap);
        if (const auto info = try_read_process_info(tid)) {
            blocked |=
                info->blocked_signals & (info->pending_signals | info->shared_pending_signals);
        }
        blocked = steps == Steps::yes ? blocked & ~kTrap : blocked | kTrap;
        if (held_) {
            record_.borrowed.mask = mask_;
            record_.borrowed.tid_of_mask.store(tid_.value());
        }
        ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof blocked, &blocked);
    }
    ~SignalsHeldBack() {
        if (held_ && !is_in_exec_stop(tid_)) { // the new program has the mask of who executed it
            ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof mask_, &mask_);
        }
        record_.borrowed.tid_of_mask.store(0);
    }
    SignalsHeldBack(const SignalsHeldBack&) = delete;
    SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  private:
    static constexpr std::uint64_t kTrap = signal_bit(SIGTRAP);

    Tid tid_;
    RecoveryRecord& record_;
    std::uint64_t mask_ = 0; ///< the kernel's sigset_t
    bool held_ = false;
};

/// What came between while a thread executed something for us, and is told or sent again.
class DeferredStops {
  public:
    DeferredStops(Tid tid, RecoveryRecord& record) : tid_(tid), record_(record) {}
    /// The one that it is stopped for.
    void signal() {
        siginfo_t info{};
        if (ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &info) == 0) {
            record_.owe(tid_, info);
            signals_.push_back(info);
        }
    }
    [[nodiscard]] bool has(int signal) const {
        return std::any_of(signals_.begin(), signals_.end(),
                           [signal](const siginfo_t& info) { return info.si_signo == signal; });
    }
    void stop() { stopped_ = true; }
    void give_back(Target& target) const {
        for (const siginfo_t& info : signals_) {
            target.send_again(tid_, info);
        }
        if (stopped_) {
            target.interrupt(tid_); // told again, as soon as the thread goes on
        }
    }

  private:
    Tid tid_;
    RecoveryRecord& record_;
    std::vector<siginfo_t> signals_;
    bool stopped_ = false;
};

/// Raised by the call's instruction itself, which would raise it again? One that was raised before,
/// where the thread was then, is put aside once.
bool is_fault(Tid tid, int signal, CodeAddr instruction, const DeferredStops& aside) {
    siginfo_t info{};
    if ((signal != SIGSEGV && signal != SIGBUS && signal != SIGILL) ||
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0 || info.si_code <= 0) {
        return false;
    }
    const auto code = AddrRange::at(instruction, arch::kSyscallBytes.size());
    return code.contains(reinterpret_cast<std::uintptr_t>(info.si_addr)) || aside.has(signal);
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

std::optional<int> Target::await_stop_of(Tid tid) {
    Patience patience(kMostMsUntilItRuns);
    bool told = false;
    int status = 0;
    for (int looks = 0;; ++looks) {
        const pid_t got = waitpid(tid.value(), &status, __WALL | __WNOTHREAD | WNOHANG);
        if (got > 0) {
            break;
        }
        if (got < 0) {
            return std::nullopt;
        }
        if (patience.is_over()) {
            const auto kernel = try_read_kernel_state(pid_, tid);
            if (kernel && kernel->state != 'R') { // else it waits for a CPU
                interrupt(tid);
            }
            const auto freezer = told ? std::nullopt : file_of_freezer(pid_);
            if (freezer) { // which, in version 1, keeps a stop from us, too
                log_warning("process {} was frozen ({}) while it executed something for memleax: "
                            "it can be left when that is thawed",
                            pid_.value(), *freezer);
                told = true;
            }
            patience.begin_anew();
        }
        pause_between_looks(tid, looks);
    }
    if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXEC) { // the thread is no more
        if (const auto event = decode(tid, status)) {
            defer(*event);
        }
        return std::nullopt;
    }
    return status;
}

Result<void> Target::step(Tid tid) {
    const SignalsHeldBack hold(tid, *record_, Steps::yes);
    DeferredStops aside(tid, *record_);
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, tid.value(), nullptr, nullptr) != 0) {
            return thread_ended(tid);
        }
        const auto status = await_stop_of(tid);
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
                defer(SignalStop{tid, signal});
            }
            break;
        }
        aside.signal(); // SIGSTOP cannot be held back, and SIGTRAP must not be
    }
    aside.give_back(*this);
    return {};
}

// Without a single step: should we die in the middle, the thread would get a SIGTRAP that nobody
// expects. The stops used here leave nothing behind: the kernel sends "SIGTRAP|0x80" to a thread
// that it lets out of a system call stop, which is no signal (kernel/signal.c, valid_signal()). But
// a signal that this stop was about to deliver can be put back only into a stop of the same kind,
// and a step is the way to one.
Result<void> Target::run_system_call(Tid tid, CodeAddr instruction, bool to_signal_stop) {
    const SignalsHeldBack hold(tid, *record_, to_signal_stop ? Steps::yes : Steps::no);
    DeferredStops aside(tid, *record_);
    const Patience patience(kMostMsUntilItRuns);
    bool entered = false;
    for (bool done = false; !done;) {
        // Once it is in the call, it is interrupted on its way out. In that stop, unlike in that of
        // the call's end, the kernel looks whether the registers ask for a restart of the call that
        // the thread was in before.
        if (entered && !to_signal_stop) {
            interrupt(tid);
        }
        const auto request = !entered         ? PTRACE_SYSCALL
                             : to_signal_stop ? PTRACE_SINGLESTEP
                                              : PTRACE_CONT;
        if (ptrace(request, tid.value(), nullptr, nullptr) != 0) {
            return thread_ended(tid);
        }
        const auto status = await_stop_of(tid);
        if (!status) {
            return thread_ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        if (signal == kSystemCallStop) {
            entered = true;
        } else if ((*status >> 16) == 0) {
            // A SIGTRAP that was pending already has taken the place of the step's.
            done = to_signal_stop && entered && signal == SIGTRAP && has_left(tid, instruction);
            if (is_fault(tid, signal, instruction, aside)) {
                aside.give_back(*this);
                return Error(fmt::format("thread {} cannot execute our system call", tid.value()),
                             EFAULT);
            }
            if (!is_step_trap(tid, signal)) {
                aside.signal();
            }
        } else {
            // In a stopped process (SIGSTOP) each such stop is a group-stop.
            done = entered && !to_signal_stop && has_left(tid, instruction);
            if (signal != SIGTRAP || !done) {
                aside.stop();
            }
            if (!entered && patience.is_over()) {
                aside.give_back(*this);
                return Error(fmt::format("thread {} does not run now", tid.value()), EAGAIN);
            }
        }
    }
    aside.give_back(*this);
    return {};
}

std::optional<SystemCallMade> Target::follow_system_call(Tid tid, long number,
                                                         std::uint64_t first_argument) {
    std::optional<SignalsHeldBack> hold;
    hold.emplace(tid, *record_, Steps::yes);
    DeferredStops aside(tid, *record_);
    std::optional<SystemCallMade> made;
    bool sets_mask = false; // by a call before that, as musl's sigaction(3) does at first
    // Out of the call as run_system_call() goes: a stop at its end would not let us replace all
    // registers (on arm64 the kernel keeps x7 for itself there).
    for (bool done = false; !done;) {
        if (made) {
            interrupt(tid);
        }
        if (ptrace(made ? PTRACE_CONT : PTRACE_SYSCALL, tid.value(), nullptr, nullptr) != 0) {
            return std::nullopt;
        }
        const auto status = await_stop_of(tid);
        arch::Registers regs{};
        if (!status || !get_registers(tid, &regs)) {
            return std::nullopt;
        }
        const int signal = WSTOPSIG(*status);
        if (signal == kSystemCallStop && sets_mask) { // and has set it
            sets_mask = false;
            hold.emplace(tid, *record_, Steps::yes);
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
            consume_stop(tid);
            defer(signal == SIGTRAP ? StopEvent(TrapStop{tid}) : SignalStop{tid, signal});
            done = true;
        } else {
            aside.signal(); // SIGSTOP cannot be held back, and SIGTRAP must not be
        }
    }
    aside.give_back(*this);
    return made;
}

bool Target::has_left(Tid tid, CodeAddr instruction) const {
    arch::Registers regs;
    return !get_registers(tid, &regs) || arch::pc(regs) != instruction;
}

// Out of the stop of clone, fork or exec, to the next one: then the kernel has put that call's
// result into the registers.
Result<void> Target::settle(Tid tid) {
    // It has its own registers, and would run with this mask should we die: with SIGTRAP blocked
    // its next one would end the process.
    const SignalsHeldBack hold(tid, *record_, Steps::yes);
    DeferredStops aside(tid, *record_);
    for (;;) {
        interrupt(tid);
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, nullptr) != 0) {
            return thread_ended(tid);
        }
        const auto status = await_stop_of(tid);
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
        aside.signal();
    }
    aside.give_back(*this);
    return {};
}

} // namespace memleax
