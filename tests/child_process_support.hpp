// SPDX-License-Identifier: GPL-3.0-or-later
/// Children of a test, on pipes.
///
/// Nothing here waits by sleeping: every wait is for a line, or for the end, of a process, up to a
/// deadline; past it the test fails with what was seen so far. A child is killed by its own pid
/// when its object goes, and by the kernel when the test program dies.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace memleax::testing {

/// Generous: a loaded machine with sanitizers is no reason to fail.
constexpr std::chrono::seconds kDeadline{120};

/// A file descriptor that is closed at the end.
class ScopedFd {
  public:
    ScopedFd() = default;
    explicit ScopedFd(int fd) : fd_(fd) {}
    ScopedFd(ScopedFd&& other) noexcept : fd_(other.release()) {}
    ScopedFd& operator=(ScopedFd&& other) noexcept;
    ~ScopedFd() { reset(); }
    int get() const { return fd_; }
    int release();
    void reset();

  private:
    int fd_ = -1;
};

using Environment = std::map<std::string, std::string>;
/// The test's own, and what is added to it: NAME=VALUE each.
std::vector<std::string> merged_environment(const Environment& added);
/// As execve wants them, with a null at the end; valid as long as `texts` is.
std::vector<char*> string_pointers(std::vector<std::string>& texts);

/// A child with pipes for stdin, stdout and stderr. Throws std::runtime_error when a deadline
/// passes.
class ChildProcess {
  public:
    /// `environment` is added to that of the test.
    explicit ChildProcess(const std::vector<std::string>& command,
                          const Environment& environment = {});
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    void send(const std::string& line); ///< the line's end is added
    void close_input() { input_.reset(); }
    void signal(int number) const;

    /// The next line of stdout, without its end; nullopt at the end of the output.
    std::optional<std::string> read_line();
    /// Is there any that has not been read?
    bool has_output() const;
    /// The first line of stderr with this text, from where the last search stopped; nullopt if the
    /// child ends before.
    std::optional<std::string> find_error_line(const std::string& text);

    /// Reads on until both outputs end, and reaps. The wait status, as waitpid gives it.
    int wait_for_end();

    /// Reaps, while the outputs may stay open in a child of its own; true if it exited with 0.
    bool wait_for_exit();

    /// For the message of a failure: who it is, how it ended, what it wrote.
    std::string state() const;
    const std::string& output() const { return streams_[0].text; } ///< all that has been read
    const std::string& errors() const { return streams_[1].text; }

  private:
    struct Stream {
        ScopedFd fd;
        std::string text;
        std::size_t taken = 0; ///< what read_line or find_error_line has passed
        std::optional<std::string> next_line();
    };
    /// Reads what comes next from either; false when both have ended.
    bool pump(std::chrono::steady_clock::time_point deadline);

    std::string name_;
    pid_t pid_ = -1;
    bool reaped_ = false;
    int status_ = 0;
    ScopedFd input_;
    Stream streams_[2];
};

} // namespace memleax::testing
