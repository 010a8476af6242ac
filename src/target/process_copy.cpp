// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/process_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/copyable.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "ptrace_options.hpp"
#include "target_parts.hpp"
#include "thread_ended.hpp"

namespace memleax {

namespace {

/// CLONE_FILES: to copy the table would raise the counts of all files, and to let go of them would
/// flush them (filp_close). Not CLONE_FS: while that is shared, nobody in the process can execute a
/// set-user-ID program (fs/exec.c, check_unsafe_exec).
constexpr std::uint64_t kFlags = CLONE_FILES | ProcessCopy::kExitSignal;

// Of close_range(2).
constexpr std::uint64_t kUnshare = 2;
constexpr std::uint64_t kLast = 0xffffffff;

/// Which of the stopped threads make a copy: not one that stands in a clone or exec, nor one that
/// is about to get a signal, which it would have to get first. At our breakpoint there is none.
std::vector<Tid> fit_to_clone(Target& target) {
    std::vector<Tid> result;
    std::vector<Tid> at_breakpoints;
    for (const auto& [tid, thread] : target.threads()) {
        if (thread.state != TracedThread::State::stopped || thread.in_system_call ||
            thread.in_vfork || thread.is_child_process) {
            continue;
        }
        if (thread.stop_signal == 0) {
            result.push_back(tid);
        } else if (thread.stop_signal == SIGTRAP && StoppedThread(tid).is_breakpoint_trap()) {
            at_breakpoints.push_back(tid);
        }
    }
    // The first thread has its stack from the kernel: below that there is room for certain.
    std::sort(result.begin(), result.end());
    std::sort(at_breakpoints.begin(), at_breakpoints.end());
    result.insert(result.end(), at_breakpoints.begin(), at_breakpoints.end());
    return result;
}

/// A call by the newborn, which stands still where it was born, in the code behind the call that
/// has made it. Nobody else uses its memory.
std::optional<long> call_in_newborn(Target& target, Tid tid, const arch::Registers& born,
                                    long number, std::initializer_list<std::uint64_t> arguments) {
    arch::Registers regs = born;
    const CodeAddr instruction =
        arch::pc(born) - static_cast<std::int64_t>(arch::kSyscallBytes.size());
    arch::prepare_system_call(regs, instruction, number,
                              std::span(arguments.begin(), arguments.size()));
    if (!StoppedThread(tid).set_registers(regs)) {
        return std::nullopt;
    }
    for (int stops = 0; stops < 2;) {
        if (ptrace(PTRACE_SYSCALL, tid.value(), nullptr, nullptr) != 0) {
            return std::nullopt;
        }
        const auto status = target.parts().waits.await_status(tid);
        if (!status) {
            return std::nullopt;
        }
        stops += WSTOPSIG(*status) == kSystemCallStop ? 1 : 0; // others are signals to its group
    }
    const bool ended = StoppedThread(tid).get_registers(&regs);
    // Should it ever run, it ends (arch::kCopyingBytes).
    return ended && StoppedThread(tid).set_registers(born)
               ? std::optional(arch::system_call_result(regs))
               : std::nullopt;
}

/// What the process writes to is copied, and counts as its memory. If that is too much, it is not
/// the process that is to be killed. To raise the value needs no privilege.
Result<void> be_killed_first(Tid child) {
    const std::string file = fmt::format("/proc/{}/oom_score_adj", child.value());
    constexpr std::string_view kMost = "1000";
    const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    const bool is_written =
        fd >= 0 && write(fd, kMost.data(), kMost.size()) == static_cast<ssize_t>(kMost.size());
    const Error failure("the kernel cannot be told to kill the copy first (oom_score_adj)", errno);
    if (fd >= 0) {
        close(fd);
    }
    return is_written ? Result<void>() : failure;
}

/// Gives it what keeps it from outliving us, and takes from it what it shares with the process.
Result<void> bring_up(Target& target, Tid child) {
    const Error gone("the copy has ended", ECHILD);
    if (!target.parts().waits.await_status(child)) {
        return gone;
    }
    arch::Registers born{};
    if (ptrace(PTRACE_SETOPTIONS, child.value(), nullptr, kPtraceOptions | PTRACE_O_EXITKILL) !=
            0 ||
        !StoppedThread(child).get_registers(&born)) {
        return gone;
    }
    if (auto first = be_killed_first(child); !first) {
        return first;
    }
    const auto closed = call_in_newborn(target, child, born, kCloseRange, {0, kLast, kUnshare});
    if (!closed) {
        return gone;
    }
    return *closed == 0 ? Result<void>()
                        : Error("close_range in the copy", static_cast<int>(-*closed));
}

} // namespace

Result<std::shared_ptr<ProcessCopy>> ProcessCopy::make(Target& target,
                                                       const std::vector<Mapping>& mappings) {
    if (auto ended = end_copy(target); !ended) { // one that could not be reaped before
        return std::move(ended).error();
    }
    Error problem("no thread of it can make a copy now");
    constexpr std::size_t kMostTries = 4;
    std::vector<Tid> threads = fit_to_clone(target);
    threads.resize(std::min(threads.size(), kMostTries));
    target.record().has_copy.store(1);
    for (const Tid tid : threads) {
        std::shared_ptr<ProcessCopy> copy;
        Result<void> ready;
        const auto made = target.parts().calls.perform_clone(tid, kFlags, mappings, [&](Tid child) {
            copy.reset(new ProcessCopy(child, target.shared_record()));
            ready = bring_up(target, child);
            if (ready) {
                ready = copy->open_descriptors();
            }
        });
        if (copy != nullptr && made && ready) {
            return copy;
        }
        if (copy != nullptr) {
            copy.reset();
            if (auto reaped = reap_copies(target); !reaped) {
                log_warning("{}", reaped.error().message());
            }
            return ready ? made.error() : ready.error();
        }
        const int errnum = made ? static_cast<int>(-*made) : made.error().errnum();
        const bool may_another = errnum == ENOTSUP || errnum == EAGAIN;
        problem = made          ? Error("it cannot be copied", errnum)
                  : may_another ? Error(made.error().reason())
                                : made.error();
        if (!may_another) {
            break;
        }
    }
    target.record().has_copy.store(0);
    return problem;
}

Result<void> ProcessCopy::open_descriptors() {
    process_ = static_cast<int>(syscall(SYS_pidfd_open, pid_.value(), 0));
    if (process_ < 0) {
        return Error("the kernel has no pidfd_open(2)", errno);
    }
    memory_ = open(fmt::format("/proc/{}/mem", pid_.value()).c_str(), O_RDONLY | O_CLOEXEC);
    return memory_ >= 0 ? Result<void>() : Error("cannot read the copy", errno);
}

ProcessCopy::~ProcessCopy() {
    end();
    for (const int fd : {memory_, process_}) { // not before: another thread may be reading
        if (fd >= 0) {
            close(fd);
        }
    }
}

void ProcessCopy::kill() const {
    syscall(SYS_pidfd_send_signal, process_, SIGKILL, nullptr, 0);
}

bool ProcessCopy::is_dead() const {
    pollfd end{process_, POLLIN, 0};
    return poll(&end, 1, 0) > 0;
}

void ProcessCopy::await_death() const {
    constexpr std::int64_t kMostMs = 20'000;
    pollfd end{process_, POLLIN, 0};
    for (const Patience patience(kMostMs); poll(&end, 1, kMostMs) <= 0 && !patience.is_over();) {
    }
}

// Nobody but us waits for it as long as it is traced, so its number is its own until then.
void ProcessCopy::end() {
    if (std::exchange(has_ended_, true)) {
        return;
    }
    if (process_ >= 0) {
        kill();
    } else { // it could not be opened
        ::kill(pid_.value(), SIGKILL);
    }
    int status = 0;
    pid_t got = 0;
    do {
        got = waitpid(pid_.value(), &status, __WALL | __WNOTHREAD);
    } while ((got < 0 && errno == EINTR) || (got > 0 && WIFSTOPPED(status)));
}

std::size_t ProcessCopy::try_read(RemoteAddr from, std::span<std::byte> out) {
    std::size_t got = 0;
    while (got < out.size()) {
        const ssize_t more =
            pread(memory_, &out[got], out.size() - got, static_cast<off_t>(from.value() + got));
        if (more <= 0) {
            break;
        }
        got += static_cast<std::size_t>(more);
    }
    return got;
}

} // namespace memleax
