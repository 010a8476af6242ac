// SPDX-License-Identifier: GPL-3.0-or-later
#include "child_process_support.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/events/process_end.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {

namespace {

constexpr int kCannotExec = 127;

struct Pipe {
    ScopedFd reading;
    ScopedFd writing;
};

/// Close-on-exec, so that no child holds another child's pipe open.
Pipe make_pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) {
        throw std::runtime_error(fmt::format("pipe2: {}", std::strerror(errno)));
    }
    return {ScopedFd(fds[0]), ScopedFd(fds[1])};
}

/// In the child, so without anything that allocates.
[[noreturn]] void become(char* const* argv, char* const* environment, pid_t parent, int in, int out,
                         int error) {
    // Kept across execve; a test that crashes leaves nobody behind.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGHUP, SIG_DFL); // also where the tests run under nohup
    if (::getppid() != parent || ::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 ||
        ::dup2(error, STDERR_FILENO) < 0) {
        ::_exit(kCannotExec);
    }
    ::execvpe(argv[0], argv, environment);
    ::_exit(kCannotExec);
}

std::string one_line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// What each thread of a process that should have ended does, and its children's.
std::string threads_text(pid_t pid) {
    std::string text;
    for (const Tid tid : list_threads(Tid(pid))) {
        const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid.value());
        const auto info = try_read_process_info(tid);
        text += fmt::format("{} {} {} {} {} (system call {})\n", pid, tid.value(),
                            info ? info->comm : "?", info ? info->state : '?',
                            one_line_of(folder + "wchan"), one_line_of(folder + "syscall"));
        std::ifstream children(folder + "children");
        for (pid_t child = 0; children >> child;) {
            text += threads_text(child);
        }
    }
    return text;
}

} // namespace

std::vector<char*> string_pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) {
        result.push_back(text.data());
    }
    result.push_back(nullptr);
    return result;
}

std::vector<std::string> merged_environment(const Environment& added) {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (!added.contains(text.substr(0, text.find('=')))) {
            result.push_back(text);
        }
    }
    for (const auto& [name, value] : added) {
        result.push_back(name + "=" + value);
    }
    return result;
}

ScopedFd& ScopedFd::operator=(ScopedFd&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.release();
    }
    return *this;
}

int ScopedFd::release() {
    return std::exchange(fd_, -1);
}

void ScopedFd::reset() {
    if (fd_ >= 0) {
        ::close(release());
    }
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, const Environment& environment)
    : name_(fmt::format("{}", fmt::join(command, " "))) {
    Pipe in = make_pipe();
    Pipe out = make_pipe();
    Pipe error = make_pipe();
    auto words = command;
    auto variables = merged_environment(environment);
    const auto argv = string_pointers(words);
    const auto envp = string_pointers(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) {
        throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
    }
    if (pid_ == 0) {
        become(argv.data(), envp.data(), parent, in.reading.get(), out.writing.get(),
               error.writing.get());
    }
    input_ = std::move(in.writing);
    streams_[0].fd = std::move(out.reading);
    streams_[1].fd = std::move(error.reading);
}

ChildProcess::~ChildProcess() {
    if (!reaped_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

void ChildProcess::send(const std::string& line) {
    const std::string text = line + "\n"; // much less than PIPE_BUF: all or nothing
    // A child that has gone shows as an error of this write, not as the end of the tests.
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    const ssize_t written = ::write(input_.get(), text.data(), text.size());
    const int error = errno;
    std::signal(SIGPIPE, before);
    if (written != static_cast<ssize_t>(text.size())) {
        if (error == EPIPE) {
            wait_for_exit(); // to say how it ended
        }
        throw std::runtime_error(
            fmt::format("cannot send '{}': {}\n{}", line, std::strerror(error), state()));
    }
}

void ChildProcess::signal(int number) const {
    if (::kill(pid_, number) != 0) {
        throw std::runtime_error(
            fmt::format("kill({}, {}): {}\n{}", pid_, number, std::strerror(errno), state()));
    }
}

std::optional<std::string> ChildProcess::Stream::next_line() {
    const auto end = text.find('\n', taken);
    if (end == std::string::npos) {
        return std::nullopt;
    }
    std::string line = text.substr(taken, end - taken);
    taken = end + 1;
    return line;
}

std::optional<std::string> ChildProcess::read_line() {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        if (auto line = streams_[0].next_line()) {
            return line;
        }
        if (streams_[0].fd.get() < 0 || !pump(deadline)) {
            return std::nullopt;
        }
    }
}

bool ChildProcess::has_output() const {
    pollfd output{streams_[0].fd.get(), POLLIN, 0};
    return streams_[0].text.size() > streams_[0].taken || ::poll(&output, 1, 0) > 0;
}

std::optional<std::string> ChildProcess::find_error_line(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        while (auto line = streams_[1].next_line()) {
            if (line->find(text) != std::string::npos) {
                return line;
            }
        }
        if (streams_[1].fd.get() < 0 || !pump(deadline)) {
            return std::nullopt;
        }
    }
}

bool ChildProcess::pump(std::chrono::steady_clock::time_point deadline) {
    pollfd fds[2];
    for (int i = 0; i < 2; ++i) {
        fds[i] = {streams_[i].fd.get(), POLLIN, 0}; // poll passes over negative ones
    }
    if (fds[0].fd < 0 && fds[1].fd < 0) {
        return false;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int ready = left.count() > 0 ? ::poll(fds, 2, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) {
        return true;
    }
    if (ready <= 0) {
        throw std::runtime_error(
            fmt::format("nothing came within {} s\n{}", kDeadline.count(), state()));
    }
    for (int i = 0; i < 2; ++i) {
        if (fds[i].fd < 0 || fds[i].revents == 0) {
            continue;
        }
        char buffer[65536];
        const ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
        if (n > 0) {
            streams_[i].text.append(buffer, static_cast<std::size_t>(n));
        } else if (n == 0 || errno != EINTR) {
            streams_[i].fd.reset();
        }
    }
    return true;
}

int ChildProcess::wait_for_end() {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (pump(deadline)) {
    }
    wait_for_exit(); // it may have closed its outputs before
    return status_;
}

bool ChildProcess::wait_for_exit() {
    const ScopedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd end{pidfd.get(), POLLIN, 0}; // readable once it has ended
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kDeadline);
    if (!reaped_ && ::poll(&end, 1, static_cast<int>(limit.count())) != 1) {
        throw std::runtime_error("it does not end\n" + state());
    }
    if (!reaped_ && ::waitpid(pid_, &status_, 0) == pid_) {
        reaped_ = true;
    }
    return reaped_ && status_ == 0;
}

std::string ChildProcess::state() const {
    return fmt::format("{} (pid {}{})\n{}--- its stdout:\n{}\n--- its stderr:\n{}", name_, pid_,
                       reaped_ ? ", " + end_text(status_) : "", reaped_ ? "" : threads_text(pid_),
                       streams_[0].text, streams_[1].text);
}

} // namespace memleax::testing
