// SPDX-License-Identifier: GPL-3.0-or-later
/// Ends the tracer thread's wait for a stop now and then.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>

namespace memleax {

/// Of the calling thread. Its signal is blocked but in a Wait: other waits of that thread take any
/// signal for a word from the user.
class TickTimer {
  public:
    TickTimer();
    ~TickTimer();
    TickTimer(const TickTimer&) = delete;
    TickTimer& operator=(const TickTimer&) = delete;

    /// In ns; 0: no ticks, as at first.
    void set_period(std::int64_t period);

    /// A system call that blocks ends with EINTR at a tick. One that comes just before it is
    /// missed: the next ends it.
    class Wait {
      public:
        explicit Wait(const TickTimer& timer) : timer_(timer) {
            pthread_sigmask(SIG_UNBLOCK, &timer_.signal_, nullptr);
        }
        ~Wait() { pthread_sigmask(SIG_BLOCK, &timer_.signal_, nullptr); }
        Wait(const Wait&) = delete;
        Wait& operator=(const Wait&) = delete;

      private:
        const TickTimer& timer_;
    };

  private:
    sigset_t signal_{};
    timer_t timer_{};
    bool has_timer_ = false;
    std::int64_t period_ = 0;
};

} // namespace memleax
