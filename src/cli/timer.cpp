// SPDX-License-Identifier: GPL-3.0-or-later
#include "timer.hpp"

#include <cmath>
#include <cstdint>

#include <sys/timerfd.h>
#include <unistd.h>

namespace memleax {

Timer::Timer(double seconds) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    constexpr double kNsPerSecond = 1e9;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(seconds);
    when.it_value.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * kNsPerSecond);
    if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0) {
        when.it_value.tv_nsec = 1; // zero would disarm it
    }
    when.it_interval = when.it_value;
    timerfd_settime(fd_, 0, &when, nullptr);
}

Timer::~Timer() {
    close(fd_);
}

void Timer::acknowledge() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto ignored = read(fd_, &count, sizeof count);
}

} // namespace memleax
