// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <thread>

#include "memleax/base/clock.hpp"

namespace memleax {

/// What is to be done while the main thread waits for a reader (OutputWait) and hears nothing.
/// Called in SignalReader's thread.
struct WhileStalled {
    std::function<bool()> is_overdue; ///< has the time come to leave the target?
    std::function<void()> leave;      ///< begins that, if it has not begun
    std::function<bool()> has_left;
};

/// Takes signals in a thread of its own. A signalfd would wake who polls it at each signal to any
/// of our threads (fs/signalfd.c, signalfd_notify): at each tick of the tracer's, a thousand times
/// a second, on a CPU that the target may need.
class SignalReader {
  public:
    /// They are blocked in all threads.
    SignalReader(const sigset_t& signals, WhileStalled while_stalled);
    ~SignalReader();
    SignalReader(const SignalReader&) = delete;
    SignalReader& operator=(const SignalReader&) = delete;

    /// To poll for POLLIN.
    [[nodiscard]] int fd() const { return changed_; }
    /// Those that have come since the last take(): bit n-1 for signal n, however often.
    [[nodiscard]] std::uint64_t come() const { return come_.load(); }
    std::uint64_t take();

  private:
    void run();
    void note(int signal);
    /// While the main thread waits for a reader: an ending signal, and the end of the time, have
    /// the target left; a second one, or after a while one that is not SIGINT, ends us. (Who
    /// presses Ctrl-C beside a pager reads on.)
    void look_for_stall();
    [[noreturn]] void end_by_signal();

    sigset_t signals_;
    WhileStalled while_stalled_;
    // The thread's.
    std::uint64_t wait_ = 0; ///< OutputWait::count() at the last look
    MonotonicNs stalled_since_;
    int ends_by_ = 0;      ///< an ending signal has come, ...
    bool insists_ = false; ///< ... and another one
    MonotonicNs ends_since_;
    int changed_; ///< an eventfd
    std::atomic<std::uint64_t> come_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace memleax
