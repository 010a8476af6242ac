// SPDX-License-Identifier: GPL-3.0-or-later
#include "signal_reader.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "memleax/base/output_wait.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/session/crash_terminal.hpp"
#include "session_signals.hpp"

namespace memleax {

SignalReader::SignalReader(const sigset_t& signals, WhileStalled while_stalled)
    : signals_(signals), while_stalled_(std::move(while_stalled)),
      changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

SignalReader::~SignalReader() {
    stop_.store(true);
    for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(&signals_, signal) == 1) {
            pthread_kill(thread_.native_handle(), signal); // ends its wait
            break;
        }
    }
    thread_.join();
    close(changed_);
}

void SignalReader::run() {
    constexpr timespec kLook{0, 500'000'000};
    for (;;) {
        const int signal = sigtimedwait(&signals_, nullptr, &kLook);
        if (stop_.load()) {
            return;
        }
        if (signal > 0) {
            note(signal);
        }
        look_for_stall();
    }
}

void SignalReader::note(int signal) {
    come_.fetch_or(signal_bit(signal));
    eventfd_write(changed_, 1);
    if (std::find(std::begin(kEndingSignals), std::end(kEndingSignals), signal) ==
        std::end(kEndingSignals)) {
        return;
    }
    insists_ = ends_by_ != 0;
    if (ends_by_ == 0) {
        ends_since_ = monotonic_now();
    }
    if (ends_by_ == 0 || ends_by_ == SIGINT) {
        ends_by_ = signal;
    }
}

void SignalReader::look_for_stall() {
    const std::uint64_t wait = OutputWait::count();
    const MonotonicNs now = monotonic_now();
    if (wait % 2 == 0 || wait != std::exchange(wait_, wait)) {
        stalled_since_ = now;
        if (come() == 0 && ends_by_ == SIGINT) { // taken, and at a prompt it ends nothing
            ends_by_ = 0;
            insists_ = false;
        }
        return;
    }
    if (ends_by_ == 0 && !while_stalled_.is_overdue()) {
        return;
    }
    while_stalled_.leave();
    constexpr std::int64_t kPatienceNs = 5 * kNsPerSecond;
    const std::int64_t since = std::max(ends_since_.value(), stalled_since_.value());
    const bool has_waited = ends_by_ != SIGINT && now.value() - since >= kPatienceNs;
    if (ends_by_ != 0 &&
        ((insists_ && now.value() - stalled_since_.value() >= kNsPerSecond) || has_waited) &&
        while_stalled_.has_left()) {
        end_by_signal();
    }
}

void SignalReader::end_by_signal() {
    restore_crash_terminal();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, ends_by_);
    std::signal(ends_by_, SIG_DFL);
    kill(getpid(), ends_by_); // blocked everywhere, ...
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    for (;;) { // ... and ours now
        pause();
    }
}

std::uint64_t SignalReader::take() {
    eventfd_t unused = 0;
    eventfd_read(changed_, &unused);
    return come_.exchange(0);
}

} // namespace memleax
