// SPDX-License-Identifier: GPL-3.0-or-later
/// How much memory a session's processes have, how much of it is live blocks, and whose memory is
/// short, now and then.
#pragma once

#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/report/report.hpp"
#include "memleax/session/memory_history.hpp"
#include "memleax/session/process_account.hpp"

namespace memleax {

class MemorySampler {
  public:
    /// `processes` outlive this, and have what is seen of each.
    explicit MemorySampler(const ProcessAccounts& processes) : processes_(processes) {}

    /// Takes a sample if it is time; `time_s` is since the begin of the session.
    void sample(MonotonicNs now, double time_s);
    /// Looks at the processes that have not ended, for what is about to be told.
    void look(MonotonicNs now);
    [[nodiscard]] const std::vector<Report::MemorySample>& samples() const {
        return history_.samples();
    }

  private:
    const ProcessAccounts& processes_;
    MemoryHistory history_;
};

} // namespace memleax
