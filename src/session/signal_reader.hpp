// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

namespace memleax {

/// Takes signals in a thread of its own. A signalfd would wake who polls it at each signal to any
/// of our threads (fs/signalfd.c, signalfd_notify): at each tick of the tracer's, a thousand times
/// a second, on a CPU that the target may need.
class SignalReader {
  public:
    /// They are blocked in all threads.
    explicit SignalReader(const sigset_t& signals);
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

    sigset_t signals_;
    int changed_; ///< an eventfd
    std::atomic<std::uint64_t> come_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace memleax
