// SPDX-License-Identifier: GPL-3.0-or-later
/// The page faults of a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memleax/events/allocation_event.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/report/folded_name.hpp"
#include "memleax/track/fault_account.hpp"

namespace memleax {

struct FaultStackReport {
    std::uint32_t process = 0; ///< index in Report::processes
    std::uint64_t minor = 0;
    std::uint64_t major = 0;
    std::vector<TouchedCount> touched; ///< most first
    Backtrace frames;
    StackEnd end = StackEnd::outermost;
};

struct PageFaultReport {
    FaultTotals totals;                   ///< of all processes
    std::vector<FaultTotals> processes;   ///< of each, in the order of Report::processes
    std::vector<FaultStackReport> stacks; ///< most faults last
};

FaultTotals operator+(const FaultTotals& a, const FaultTotals& b);

/// "12 minor, 1 major; 3 lost samples ..."
std::string fault_totals_text(const FaultTotals& totals);
/// The call stacks of one process, or of all, most faults last, `limit` of them; one paragraph for
/// each.
std::string fault_stacks_text(const PageFaultReport& faults, std::optional<std::uint32_t> process,
                              std::size_t limit, NameStyle style);

} // namespace memleax
