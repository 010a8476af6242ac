// SPDX-License-Identifier: GPL-3.0-or-later
#include "child_program.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax {

namespace {

struct Attributes {
    Attributes() {
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_init(&files);
    }
    ~Attributes() {
        posix_spawn_file_actions_destroy(&files);
        posix_spawnattr_destroy(&attributes);
    }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    posix_spawnattr_t attributes{};
    posix_spawn_file_actions_t files{};
};

} // namespace

Result<ChildProgram> ChildProgram::start(const std::vector<std::string>& words, Files files,
                                         const SpawnAttributes& inherited) {
    Attributes with;
    sigset_t defaults;
    sigemptyset(&defaults);
    // Not SIGTSTP: a child that stops itself would have to be waited for as a shell does it.
    sigaddset(&defaults, SIGCHLD);
    for (const int signal : kIgnoredSignals) {
        sigaddset(&defaults, signal);
    }
    sigset_t mask = inherited.signal_mask;
    sigaddset(&mask, SIGTSTP);
    posix_spawnattr_setsigdefault(&with.attributes, &defaults);
    posix_spawnattr_setsigmask(&with.attributes, &mask);
    posix_spawnattr_setflags(&with.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (files.input >= 0) {
        posix_spawn_file_actions_adddup2(&with.files, files.input, STDIN_FILENO);
    }
    posix_spawn_file_actions_adddup2(&with.files, files.output, STDOUT_FILENO);
    const std::vector<char*> argv = null_terminated(words);
    const std::vector<char*> environment = null_terminated(inherited.environment);
    pid_t pid = 0;
    const int error =
        posix_spawnp(&pid, argv[0], &with.files, &with.attributes, argv.data(), environment.data());
    if (files.input >= 0) {
        close(files.input);
    }
    if (error != 0) {
        return Error(fmt::format("cannot run {}", words[0]), error);
    }
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) { // an old kernel: wait here and now, the target is watched by its own thread
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        return Error("this kernel has no pidfd_open (Linux 5.3)", ENOSYS);
    }
    return ChildProgram(pid, fd);
}

ChildProgram::ChildProgram(ChildProgram&& other) noexcept
    : pid_(other.pid_), fd_(std::exchange(other.fd_, -1)) {}

ChildProgram::~ChildProgram() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

void ChildProgram::continue_if_stopped() const {
    siginfo_t stop{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &stop, WSTOPPED | WNOHANG) == 0 &&
        stop.si_pid == pid_) {
        kill(pid_, SIGCONT);
    }
}

int ChildProgram::reap() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

} // namespace memleax
