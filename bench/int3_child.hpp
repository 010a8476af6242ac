// SPDX-License-Identifier: GPL-3.0-or-later
/// A child whose threads execute breakpoints and nothing else: every stop of it costs what ptrace
/// costs, and no more.
#pragma once

#include <vector>

#include <sys/types.h>

namespace memleax::bench {

class Int3Child {
  public:
    /// Forks it and seizes its threads. They run, into their first breakpoint, from go() on. With
    /// `cpu` >= 0 they stay on that CPU. Ends this process with a message if any of that fails.
    explicit Int3Child(unsigned threads, int cpu = -1);
    /// Kills and reaps it. It dies with us too (PTRACE_O_EXITKILL).
    ~Int3Child();
    Int3Child(const Int3Child&) = delete;
    Int3Child& operator=(const Int3Child&) = delete;

    void go();
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    void seize_threads(unsigned threads);

    pid_t pid_ = 0;
    int go_ = -1; ///< each thread reads a byte from it
    unsigned threads_ = 0;
};

/// Keeps the calling thread on this CPU; on all that there are if negative.
void pin_to_cpu(int cpu);

} // namespace memleax::bench
