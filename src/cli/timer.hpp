// SPDX-License-Identifier: GPL-3.0-or-later
/// A timer that a loop can wait for: timerfd_create(2).
#pragma once

namespace memleax {

class Timer {
  public:
    /// Readable each `seconds`, for the first time after that long.
    explicit Timer(double seconds);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    [[nodiscard]] int fd() const { return fd_; }
    /// Makes it unreadable until it is time again.
    void acknowledge() const;

  private:
    int fd_;
};

} // namespace memleax
