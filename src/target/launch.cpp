// SPDX-License-Identifier: GPL-3.0-or-later
// Starting a program under watch.
#include <cerrno>
#include <csignal>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/target/target.hpp"
#include "ptrace_options.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

/// Two ends of a pipe, both closed on exec and in the end.
struct Pipe {
    int ends[2] = {-1, -1};
    bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
    void close_end(int n) {
        if (ends[n] >= 0) {
            close(ends[n]);
            ends[n] = -1;
        }
    }
    Pipe() = default;
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
};

/// The child's part: waits until it is seized, then becomes the program. Only async-signal-safe
/// calls (fork(2)): other threads of ours may have held locks.
[[noreturn]] void become(char* const* argv, char* const* environment,
                         const SpawnAttributes& inherited, pid_t guardian, Pipe& go,
                         Pipe& failure) {
    close(go.ends[1]);
    char byte = 0;
    ssize_t got = 0;
    while ((got = read(go.ends[0], &byte, 1)) < 0 && errno == EINTR) {
    }
    if (got != 1) {
        _exit(127); // memleax could not seize us, and has said why
    }
    if (guardian != 0) {
        // With Yama's ptrace_scope at 1 an ordinary user's process is traced by its ancestors only,
        // and by whom it names here, until one of the two ends; an exec changes nothing of that
        // (security/yama/yama_lsm.c). Without Yama the call fails (EINVAL), and is not needed.
        prctl(PR_SET_PTRACER, static_cast<unsigned long>(guardian), 0, 0, 0);
    }
    const auto as_before = [&inherited](int number) { // ignored ones stay so over exec
        signal(number, sigismember(&inherited.ignored_signals, number) == 1 ? SIG_IGN : SIG_DFL);
    };
    for (const int number : kIgnoredSignals) {
        as_before(number);
    }
    as_before(SIGCHLD);
    setrlimit(RLIMIT_NOFILE, &inherited.open_files);
    setrlimit(RLIMIT_DATA, &inherited.data);
    sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
    execvpe(argv[0], argv, environment);
    const int errnum = errno;
    [[maybe_unused]] const auto ignored = write(failure.ends[1], &errnum, sizeof errnum);
    _exit(127);
}

} // namespace

Result<std::unique_ptr<Target>> Target::launch(Tracer& tracer,
                                               const std::vector<std::string>& command,
                                               const SpawnAttributes& inherited) {
    const std::vector<char*> argv = null_terminated(command);
    const std::vector<char*> environment = null_terminated(inherited.environment);

    Pipe go;
    Pipe failure;
    if (!go.open() || !failure.open()) {
        return Error("cannot make a pipe", errno);
    }
    const pid_t child = fork();
    if (child < 0) {
        return Error("cannot fork", errno);
    }
    if (child == 0) {
        become(argv.data(), environment.data(), inherited, tracer.guardian(), go, failure);
    }
    const Tid pid(child);
    failure.close_end(1);
    const auto give_up = [&](Error error) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, __WALL);
        return error;
    };
    if (ptrace(PTRACE_SEIZE, child, nullptr, kPtraceOptions) != 0) {
        return give_up(Error(fmt::format("cannot trace {}", command[0]), errno));
    }
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return give_up(std::move(memory).error());
    }
    std::unique_ptr<Target> target(new Target(tracer, pid, *std::move(memory)));
    target->parts().add_thread(pid);
    const char byte = 'g';
    if (write(go.ends[1], &byte, 1) != 1) {
        return give_up(Error(fmt::format("cannot start {}", command[0]), errno));
    }

    std::optional<Patience> last; // since somebody wants us to end
    for (;;) {
        const auto event = target->next_event(Wait::block);
        if (!event) {
            // One of our own signals, which come again. The child either gets to its exec or ends,
            // unless the program is on a dead disk.
            constexpr std::int64_t kMostMs = 10'000;
            if (!last) {
                last.emplace(kMostMs);
            } else if (last->is_over()) {
                kill(child, SIGKILL);
                return Error(fmt::format("cannot start {}", command[0]), EINTR);
            }
            continue;
        }
        if (std::holds_alternative<ExecStop>(*event)) {
            auto reopened = target->reopen_memory();
            if (!reopened) {
                return std::move(reopened).error();
            }
            // It stands in that stop until it is resumed like from any other.
            target->defer(QuietStop{pid});
            return target;
        }
        if (std::holds_alternative<ThreadGone>(*event)) {
            int errnum = 0;
            if (read(failure.ends[0], &errnum, sizeof errnum) == sizeof errnum) {
                return Error(fmt::format("cannot run {}", command[0]), errnum);
            }
            return Error(fmt::format("{} ended before it was started", command[0]));
        }
        if (const auto* signal = std::get_if<SignalStop>(&*event)) {
            target->resume(signal->tid, signal->signal);
        } else if (const auto* group = std::get_if<GroupStop>(&*event)) {
            target->listen(group->tid);
        } else {
            target->resume(tid_of(*event));
        }
    }
}

} // namespace memleax
