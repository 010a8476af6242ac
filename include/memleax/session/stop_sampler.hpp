// SPDX-License-Identifier: GPL-3.0-or-later
/// What the watching costs a session's processes: looks, all over the session, at which of their
/// threads would run, and which of those are stopped for us.
#pragma once

#include "memleax/base/types.hpp"
#include "memleax/session/process_account.hpp"

namespace memleax {

/// Belongs to a thread that is not the tracer's: a thread of a process is seldom stopped while the
/// tracer has time to look.
class StopSampler {
  public:
    /// `processes` outlive this, and have what is seen.
    explicit StopSampler(const ProcessAccounts& processes) : processes_(processes) {}

    /// Looks if it is time; while the processes are watched.
    void sample(MonotonicNs now);
    /// When the next look is due.
    [[nodiscard]] MonotonicNs due() const { return due_; }

  private:
    const ProcessAccounts& processes_;
    MonotonicNs due_;
};

} // namespace memleax
