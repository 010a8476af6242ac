// SPDX-License-Identifier: GPL-3.0-or-later
#include "child_program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
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

/// Readable when the child has ended; -1 and errno, if there can be none.
int open_end_of(pid_t pid) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd >= 0 || errno != ENOSYS) {
        return fd;
    }
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        return -1;
    }
    try {
        // Belongs to nobody, as the child may go on when its ChildProgram does not.
        std::thread([pid, end = ends[1]] {
            siginfo_t info{};
            while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 &&
                   errno == EINTR) {
            }
            close(end); // a pipe that nobody can write to is readable
        }).detach();
    } catch (const std::system_error& error) {
        close(ends[0]);
        close(ends[1]);
        errno = error.code().value();
        return -1;
    }
    return ends[0];
}

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
    const int fd = open_end_of(pid);
    if (fd < 0) { // no descriptor or thread is left: wait here and now, the target is watched by
                  // its own thread
        const int errnum = errno;
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        return Error(fmt::format("cannot wait for {}", words[0]), errnum);
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
