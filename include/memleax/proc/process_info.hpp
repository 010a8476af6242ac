// SPDX-License-Identifier: GPL-3.0-or-later
/// What /proc tells about a process or thread without touching it (proc(5)).
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// In a set of signals as the kernel has them: bit n-1 for signal n. None for 0.
constexpr std::uint64_t signal_bit(int signal) {
    return signal > 0 ? 1ULL << (signal - 1) : 0;
}

/// Those that an instruction raises. When it does, the kernel kills the process if they are
/// blocked.
constexpr std::uint64_t kExceptionSignals = signal_bit(SIGSEGV) | signal_bit(SIGBUS) |
                                            signal_bit(SIGFPE) | signal_bit(SIGILL) |
                                            signal_bit(SIGTRAP) | signal_bit(SIGSYS);
/// Raised where the thread is, as a rule: it cannot go on before it has been delivered.
constexpr bool is_exception(int signal) {
    return (signal_bit(signal) & kExceptionSignals) != 0;
}

/// Those whose default action is a core dump (signal(7), "Standard signals").
constexpr std::uint64_t kCoreSignals = kExceptionSignals | signal_bit(SIGQUIT) |
                                       signal_bit(SIGABRT) | signal_bit(SIGXCPU) |
                                       signal_bit(SIGXFSZ);

/// Fields of /proc/PID/status and /proc/PID/stat.
struct ProcessInfo {
    std::string comm;
    char state = '?'; ///< R S D T t Z X I
    Tid tgid;
    Tid parent; ///< the process
    Tid tracer; ///< 0: nobody
    unsigned uid = 0;
    bool kernel_thread = false;
    /// It will not run any more, and its memory may have gone, although its state does not say so
    /// yet (PF_EXITING).
    bool is_exiting = false;
    bool dumps_core = false; ///< its process does (CoreDumping, since Linux 4.15)
    // Sets of signals (signal_bit()).
    std::uint64_t pending_signals = 0;        ///< for this thread alone
    std::uint64_t shared_pending_signals = 0; ///< for any thread of its process
    std::uint64_t blocked_signals = 0;
    std::uint64_t ignored_signals = 0;
    std::uint64_t caught_signals = 0;
    std::uint64_t effective_capabilities = 0; ///< bit n for capability n
    std::uint64_t locked_bytes = 0;           ///< of its memory (VmLck; mlock(2), mlockall(2))
    int seccomp_mode = 0;                     ///< 0: none, 1: strict, 2: filter (seccomp(2))
    RemoteAddr heap_begin; ///< where the break's memory begins (start_brk); 0: not ours to know
    /// Of one that has ended and that nobody has reaped. Not of exit status 0: who may not know
    /// reads a 0 as well.
    std::optional<int> wait_status;
    std::uint64_t start_time = 0; ///< clock ticks since boot: tells a pid that was given anew

    [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// From the texts of the two files; nothing if they are not what proc(5) says.
std::optional<ProcessInfo> parse_process_info(std::string_view status, const std::string& stat);
/// Nothing if there is no such process or thread (any more).
std::optional<ProcessInfo> try_read_process_info(Tid tid);

using SystemCallArguments = std::array<std::uint64_t, 6>;

/// What a thread does in the kernel.
struct KernelState {
    char state = '?';
    bool is_kernels_worker = false; ///< see below
    /// The system call in which it is blocked; nothing if it runs, or is blocked for another
    /// reason.
    std::optional<long> system_call;
    SystemCallArguments arguments{}; ///< of that call
    CodeAddr pc;                     ///< where it will go on in user space; 0 if it runs
    RemoteAddr sp;

    [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// From the texts of /proc/TID/stat and /proc/TID/syscall, which not everybody may read; nothing if
/// the first is not what proc(5) says.
std::optional<KernelState> parse_kernel_state(const std::string& stat,
                                              const std::optional<std::string>& call);
/// Of a thread of `pid`, or of a child process that shares its memory; nothing if it is gone.
std::optional<KernelState> try_read_kernel_state(Tid pid, Tid tid);

/// Does it sleep in the call that it slept in `before`, so that it has most probably slept all the
/// time?
bool sleeps_since(Tid pid, Tid tid, const KernelState& before);

/// Is it a thread that the kernel runs in the process for work of its own (io_uring's iou-wrk and
/// iou-sqp, vhost)? Those never execute code of the program, and do not stop for a tracer.
bool is_kernels_worker(Tid tid);

/// The flags (field 9 of /proc/PID/stat) that tell such a thread, with a kernel of this release
/// (uname(2)): their bits have had other meanings.
unsigned long worker_flags(std::string_view release);

/// Will this thread execute nothing of its program any more, although its end may not have been
/// told yet? Once this is so, it remains so.
bool is_past_its_end(Tid tid);

/// Is its program's file set-user-ID, set-group-ID, or one with capabilities, and did it not get
/// what the file gives?
bool has_lost_privileges(Tid pid);

/// Another string after each exec: the auxiliary vector has addresses that are chosen anew, and 16
/// random bytes' place. Empty while the process has no memory.
std::string program_identity(Tid pid);

/// The ids in /proc/PID/task, empty if the process is gone.
std::vector<Tid> list_threads(Tid pid);

/// Children that this thread of the process has made, as far as they live; empty where the kernel
/// does not tell (CONFIG_PROC_CHILDREN).
std::vector<Tid> list_children(Tid pid, Tid tid);

/// Is `tid` a thread of process `pid` at this moment?
bool is_thread_of(Tid pid, Tid tid);

/// The path that /proc/PID/exe points to, without the " (deleted)" of a removed file.
std::string executable_path(Tid pid);

/// As the process is called (proc_pid_comm(5)) that leaves a target when memleax is killed.
inline constexpr const char* kGuardianName = "mlx-guardian";

/// Finds what would keep us from watching this process, before anything is touched: no such
/// process, ourselves, a kernel thread, a zombie, a thread instead of a process, traced already, a
/// process that dumps its core, a foreign architecture, no permission to look at it, one that is
/// run by valgrind, a seccomp filter that we may not suspend. Each with a sentence that says so.
/// For a guardian that traces it this waits, some seconds at most.
Result<ProcessInfo> check_watchable(Tid pid);
/// The part of it that each program which the process executes has to pass.
Result<void> check_architecture(Tid pid);
/// The part of it that has to be looked at again once the process is seized, before anybody is
/// stopped: a stop can cut the core short (Linux 6.1 leaves it empty). What begins to dump later
/// stops for us first, with the signal.
Result<void> check_no_core_dump(Tid pid);

/// May we suspend other processes' seccomp filters (PTRACE_O_SUSPEND_SECCOMP)? The kernel asks for
/// CAP_SYS_ADMIN in the first user namespace, and that we have no filter of our own.
bool may_suspend_seccomp();

/// Why PTRACE_SEIZE failed with this errno: which setting forbids it, and what to do about it.
Error explain_seize_failure(Tid pid, int errnum);

/// The wording for a value of /proc/sys/kernel/yama/ptrace_scope (Yama.rst), empty if it forbids
/// nothing to a process without privileges that watches another of its own user.
std::string yama_advice(int ptrace_scope);

} // namespace memleax
