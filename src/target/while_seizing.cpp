// SPDX-License-Identifier: GPL-3.0-or-later
#include "while_seizing.hpp"

#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

constexpr std::chrono::milliseconds kReapEach(20); // seizing itself takes less

thread_local WhileSeizing* seizing_here = nullptr;

sigset_t only_signal(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

} // namespace

WhileSeizing::WhileSeizing(Tid pid) : pid_(pid), tracer_(gettid()), processes_{pid} {
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) { // no room for one more
        start_timer();
    }
}

void WhileSeizing::also(Tid process) {
    const std::lock_guard lock(mutex_);
    processes_.insert(process);
}

void WhileSeizing::add(Tid tid) {
    if (!has_timer_) {
        return;
    }
    const sigset_t set = only_signal(kSignal);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    seized_.push_back(tid);
    reaped_.reserve(seized_.size());
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::vector<Tid> WhileSeizing::finish() {
    stop_timer();
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) {
        thread_.join();
    }
    return std::move(reaped_);
}

void WhileSeizing::run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kReapEach, [this] { return done_; })) {
        try {
            reap();
        } catch (const std::exception&) { // no memory: perhaps the next time
        }
    }
}

void WhileSeizing::reap() {
    for (const Tid process : processes_) {
        for (const Tid tid : list_threads(process)) {
            reaped_.reserve(reaped_.size() + 1); // what is reaped has to be told
            const auto info = tid != process ? try_read_process_info(tid) : std::nullopt;
            if (info && info->has_ended() && info->tracer == tracer_ &&
                waitpid(tid.value(), nullptr, __WALL | WNOHANG) > 0) {
                reaped_.push_back(tid);
            }
        }
    }
}

void WhileSeizing::start_timer() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kSignal;
    event._sigev_un._tid = tracer_.value();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) {
        return;
    }
    has_timer_ = true;
    seizing_here = this;
    struct sigaction action {};
    action.sa_handler = on_timer;
    action.sa_flags = SA_RESTART;
    sigaction(kSignal, &action, &action_before_);
    const sigset_t set = only_signal(kSignal);
    pthread_sigmask(SIG_UNBLOCK, &set, &mask_before_);
    const timespec each{0, std::chrono::nanoseconds(kReapEach).count()};
    const itimerspec times{each, each};
    timer_settime(timer_, 0, &times, nullptr);
}

void WhileSeizing::stop_timer() {
    if (!has_timer_) {
        return;
    }
    const sigset_t set = only_signal(kSignal);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    timer_delete(timer_); // what it has sent, and is pending, goes with it
    const timespec now{};
    while (sigtimedwait(&set, nullptr, &now) > 0) {
    }
    sigaction(kSignal, &action_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    seizing_here = nullptr;
    has_timer_ = false;
}

void WhileSeizing::on_timer(int /*signal*/) {
    const int errnum = errno;
    if (seizing_here != nullptr) {
        seizing_here->reap_seized();
    }
    errno = errnum;
}

// In a signal handler: no memory is asked for.
void WhileSeizing::reap_seized() {
    for (Tid& tid : seized_) {
        siginfo_t info{};
        if (tid != pid_ && tid.value() != 0 &&
            waitid(P_PID, static_cast<id_t>(tid.value()), &info, WEXITED | WNOHANG | __WALL) == 0 &&
            info.si_pid != 0) {
            reaped_.push_back(tid);
            tid = Tid();
        }
    }
}

} // namespace memleax
