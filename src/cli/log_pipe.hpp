// SPDX-License-Identifier: GPL-3.0-or-later
/// Log lines of all threads, for whoever writes on the same terminal: they would tear what is
/// typed.
#pragma once

#include <string>

namespace memleax {

/// While this lives, log lines come out here and not at stderr. One at a time. A pipe, and not a
/// queue under a lock: a thread that crashes within it must not keep the tracer from its work.
class LogPipe {
  public:
    LogPipe();
    /// What is left goes to stderr.
    ~LogPipe();
    LogPipe(const LogPipe&) = delete;
    LogPipe& operator=(const LogPipe&) = delete;

    /// Readable when there is something to take.
    [[nodiscard]] int fd() const { return fds_[0]; }
    [[nodiscard]] std::string take() const;

  private:
    int fds_[2] = {-1, -1};
};

} // namespace memleax
