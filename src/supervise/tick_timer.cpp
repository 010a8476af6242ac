// SPDX-License-Identifier: GPL-3.0-or-later
#include "tick_timer.hpp"

#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"

namespace memleax {

namespace {
constexpr int kTickSignal = SIGUSR1;
} // namespace

TickTimer::TickTimer() {
    sigemptyset(&signal_);
    sigaddset(&signal_, kTickSignal);
    pthread_sigmask(SIG_BLOCK, &signal_, nullptr);
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {}; // no SA_RESTART: a blocking wait ends with EINTR
    sigaction(kTickSignal, &nothing, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kTickSignal;
    event._sigev_un._tid = gettid(); // sigev_notify_thread_id, which glibc names since 2.35
    has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    if (!has_timer_) {
        log_warning("no timer: blocks are told of late");
    }
}

void TickTimer::set_period(std::int64_t period) {
    if (has_timer_ && period != period_) {
        period_ = period;
        const timespec each{period / kNsPerSecond, period % kNsPerSecond};
        const itimerspec times{each, each};
        timer_settime(timer_, 0, &times, nullptr);
    }
}

TickTimer::~TickTimer() {
    if (has_timer_) {
        timer_delete(timer_);
    }
}

} // namespace memleax
