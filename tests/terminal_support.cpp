// SPDX-License-Identifier: GPL-3.0-or-later
#include "terminal_support.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace memleax::testing {

namespace {

constexpr int kCannotExec = 127;

std::runtime_error failure(const std::string& what) {
    return std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Nothing of the developer's own settings.
Environment on_xterm(const Environment& added) {
    Environment all{{"TERM", "xterm"},
                    {"NO_COLOR", ""},
                    {"PAGER", "cat"},
                    {"INPUTRC", "/dev/null"},
                    {"LC_ALL", "C.UTF-8"}};
    for (const auto& [name, value] : added) {
        all[name] = value;
    }
    return all;
}

} // namespace

Terminal::Terminal(const std::vector<std::string>& command, const Environment& environment,
                   Size size)
    : name_(fmt::format("{}", fmt::join(command, " "))), screen_(size.rows, size.columns) {
    int master = -1;
    int slave = -1;
    const winsize window{size.rows, size.columns, 0, 0};
    if (openpty(&master, &slave, nullptr, nullptr, &window) != 0) {
        throw failure("openpty");
    }
    master_ = ScopedFd(master);
    slave_ = ScopedFd(slave);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    fcntl(slave, F_SETFD, FD_CLOEXEC);
    auto words = command;
    auto variables = merged_environment(on_xterm(environment));
    const auto argv = string_pointers(words);
    const auto envp = string_pointers(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) {
        throw failure("fork");
    }
    if (pid_ == 0) {
        // Kept across execve; a test that crashes leaves nobody behind.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        // A shell's background job, as the tests may be, ignores these, and so would all it starts.
        for (const int signal : {SIGINT, SIGQUIT}) {
            ::signal(signal, SIG_DFL);
        }
        if (::getppid() == parent && ::setsid() >= 0 && ::ioctl(slave, TIOCSCTTY, 0) == 0 &&
            ::dup2(slave, STDIN_FILENO) >= 0 && ::dup2(slave, STDOUT_FILENO) >= 0 &&
            ::dup2(slave, STDERR_FILENO) >= 0) {
            ::execvpe(argv[0], argv.data(), envp.data());
        }
        ::_exit(kCannotExec);
    }
}

Terminal::~Terminal() {
    if (!reaped_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
}

void Terminal::type(const std::string& keys) const {
    // Less than a terminal keeps for its reader: all or nothing.
    if (::write(master_.get(), keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
        throw failure("cannot type");
    }
}

void Terminal::resize(Size size) {
    const winsize window{size.rows, size.columns, 0, 0};
    screen_.resize(size.rows, size.columns);
    if (::ioctl(master_.get(), TIOCSWINSZ, &window) != 0) {
        throw failure("TIOCSWINSZ");
    }
}

void Terminal::signal(int number) const {
    if (::kill(pid_, number) != 0) {
        throw failure("kill");
    }
}

std::string Terminal::expect(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        const auto at = plain_.find(text, taken_);
        if (at != std::string::npos) {
            std::string before = plain_.substr(taken_, at - taken_);
            taken_ = at + text.size();
            return before;
        }
        if (!read_some(deadline)) {
            throw std::runtime_error(fmt::format("the end came, and not '{}'\n{}", text, state()));
        }
    }
}

void Terminal::expect_screen(const std::string& what,
                             const std::function<bool(const Screen&)>& looks) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (!looks(screen_)) {
        if (!read_some(deadline)) {
            throw std::runtime_error(fmt::format("the end came, and not {}\n{}", what, state()));
        }
    }
}

void Terminal::expect_cursor_after(const std::string& text) {
    expect_screen(fmt::format("a cursor after '{}'", text),
                  [&text](const Screen& screen) { return screen.before_cursor() == text; });
}

int Terminal::wait_for_end() {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    // The terminal does not end, as we hold it ourselves: its program does.
    const ScopedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    for (;;) {
        pollfd ready[] = {{pidfd.get(), POLLIN, 0}, {master_.get(), POLLIN, 0}};
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (::poll(ready, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0) {
            throw std::runtime_error("it does not end\n" + state());
        }
        if (ready[1].revents != 0) {
            read_some(deadline);
        } else if (ready[0].revents != 0) {
            break;
        }
    }
    if (!reaped_ && ::waitpid(pid_, &status_, 0) == pid_) {
        reaped_ = true;
    }
    return status_;
}

bool Terminal::is_cooked() const {
    termios mode{};
    return ::tcgetattr(slave_.get(), &mode) == 0 &&
           (mode.c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG);
}

bool Terminal::read_some(std::chrono::steady_clock::time_point deadline) {
    const ScopedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd ready[] = {{master_.get(), POLLIN, 0}, {pidfd.get(), POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const int count = left.count() > 0 ? ::poll(ready, 2, static_cast<int>(left.count())) : 0;
    if (count < 0 && errno == EINTR) {
        return true;
    }
    if (count <= 0) {
        throw std::runtime_error(
            fmt::format("it did not come within {} s\n{}", kDeadline.count(), state()));
    }
    if (ready[0].revents == 0) {
        return false; // it has ended, and all that it wrote has been read
    }
    char buffer[65536];
    const ssize_t n = ::read(master_.get(), buffer, sizeof buffer);
    if (n > 0) {
        add(std::string_view(buffer, static_cast<std::size_t>(n)));
    }
    return n > 0 || errno == EINTR;
}

void Terminal::add(std::string_view bytes) {
    raw_ += bytes;
    screen_.write(bytes);
    for (const char c : bytes) {
        if (!escape_.empty()) {
            escape_ += c;
            const bool ends = escape_[1] == '[' ? escape_.size() > 2 && c >= '@' && c <= '~' : true;
            if (ends) {
                escape_.clear();
            }
        } else if (c == '\x1b') {
            escape_ = c;
        } else if (c != '\r') {
            plain_ += c;
        }
    }
}

std::string Terminal::state() const {
    constexpr std::size_t kShown = 8000;
    return fmt::format("{} (pid {})\n--- its screen:\n{}--- all it wrote, at last:\n{}", name_,
                       pid_, screen_.picture(),
                       plain_.substr(plain_.size() - std::min(plain_.size(), kShown)));
}

} // namespace memleax::testing
