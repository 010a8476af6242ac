// SPDX-License-Identifier: GPL-3.0-or-later
/// Log lines of threads that must never wait for whoever reads stderr (a pager, a terminal under
/// Ctrl-S, a pipe that nobody empties), as a target would wait with them.
#pragma once

#include <thread>

namespace memleax {

/// While one lives, a thread of its own writes these lines to stderr, and waits there. They come to
/// it by a pipe, and not by a queue under a lock: a thread that crashes within it must not keep the
/// tracer from its work. When the pipe is full, lines are lost, and a line says how many. One at a
/// time.
class LogRelay {
  public:
    LogRelay();
    /// Waits until stderr has taken what there is.
    ~LogRelay();
    LogRelay(const LogRelay&) = delete;
    LogRelay& operator=(const LogRelay&) = delete;

  private:
    static void run(int from);

    int fds_[2] = {-1, -1};
    std::thread thread_;
};

/// The calling thread's lines take that way from now on, if there is a LogRelay.
void log_without_waiting();

} // namespace memleax
