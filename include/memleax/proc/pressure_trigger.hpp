// SPDX-License-Identifier: GPL-3.0-or-later
/// The kernel tells when tasks have waited for memory for so long:
/// Documentation/accounting/psi.rst, "Monitoring for pressure thresholds". Since Linux 5.2; for
/// users without CAP_SYS_RESOURCE since 6.5, with windows of a multiple of 2 seconds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

struct StallThreshold {
    bool full = false; ///< all tasks have to wait, else it is enough that some do
    std::int64_t stall_us = 150'000;
    std::int64_t window_us = 2'000'000;
    bool operator==(const StallThreshold&) const = default;
};

/// The memory.pressure of the process's control group in version 2's hierarchy; the machine's where
/// it is in none but the root.
std::string pressure_file_of(Tid pid);

class PressureTrigger {
  public:
    /// The Error says what to do.
    static Result<PressureTrigger> open(const std::string& path, const StallThreshold& threshold);
    /// Takes the descriptor of a trigger.
    explicit PressureTrigger(int fd) : fd_(fd) {}
    PressureTrigger(PressureTrigger&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    PressureTrigger& operator=(PressureTrigger&&) = delete;
    ~PressureTrigger();

    /// To be polled for POLLPRI, directly by poll(2): each look at it takes the event away, so that
    /// an epoll in between would lose it. At most one event in each window; POLLERR when the group
    /// is gone.
    [[nodiscard]] int fd() const { return fd_; }

  private:
    int fd_;
};

} // namespace memleax
