// SPDX-License-Identifier: GPL-3.0-or-later
/// A program that the prompt runs: a pager, a shell.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "memleax/base/error.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

/// Has the terminal while it runs; the session goes on meanwhile and sees its end at fd().
class ChildProgram {
  public:
    struct Files {
        int input;  ///< closed here; -1: ours
        int output; ///< stays ours
    };
    /// Starts it with the signal mask and limits that memleax itself was given, and with default
    /// dispositions. `files` become its standard input and output.
    static Result<ChildProgram> start(const std::vector<std::string>& words, Files files,
                                      const SpawnAttributes& inherited);
    ChildProgram(ChildProgram&& other) noexcept;
    ChildProgram& operator=(ChildProgram&&) = delete;
    /// Does not end the program: somebody may be reading in his pager.
    ~ChildProgram();

    /// Readable when it has ended: of pidfd_open(2), or where there is none (before Linux 5.3) the
    /// end of a pipe that a thread closes.
    [[nodiscard]] int fd() const { return fd_; }
    /// A program that stops itself would never be continued: there is no job control here.
    void continue_if_stopped() const;
    /// Its wait status, once it has ended.
    int reap();

  private:
    ChildProgram(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
    pid_t pid_;
    int fd_;
};

} // namespace memleax
