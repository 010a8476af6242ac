// SPDX-License-Identifier: GPL-3.0-or-later
/// What a session knows, as a report.
#pragma once

#include <vector>

#include "memleax/report/report.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/session_clock.hpp"
#include "memleax/session/session_options.hpp"
#include "memleax/session/stack_filter.hpp"
#include "memleax/session/wrapper_search.hpp"

namespace memleax {

class ReportAssembler {
  public:
    /// All that is passed outlives this.
    ReportAssembler(const SessionOptions& options, const ProcessAccounts& processes,
                    const StackFilter& filter, WrapperSearch& wrappers, const SessionClock& clock)
        : options_(options), processes_(processes), filter_(filter), wrappers_(wrappers),
          clock_(clock) {}

    /// Of the session, now.
    struct Facts {
        double expire_s = 0;
        const char* end_reason = ""; ///< while the session goes on
        const std::vector<Report::MemorySample>& memory;
        bool several = false;             ///< more than one process may be watched
        bool has_looked_at_heaps = false; ///< of all processes, or has tried to
    };
    [[nodiscard]] Report assemble(const Facts& facts) const;

  private:
    void add(ProcessAccount& process, bool has_looked_at_heap, Report* report) const;

    const SessionOptions& options_;
    const ProcessAccounts& processes_;
    const StackFilter& filter_;
    WrapperSearch& wrappers_;
    const SessionClock& clock_;
};

} // namespace memleax
