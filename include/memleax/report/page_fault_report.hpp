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
#include "memleax/report/resident_report.hpp"
#include "memleax/track/fault_account.hpp"

namespace memleax {

class ReportSink;

struct FaultStackReport {
    std::uint32_t process = 0; ///< index in Report::processes
    std::uint64_t minor = 0;
    std::uint64_t major = 0;
    std::vector<TouchedCount> touched;        ///< most first
    std::optional<std::uint64_t> still_bytes; ///< of pages still there; absent: not followed
    Backtrace frames;
    StackEnd end = StackEnd::outermost;
};

struct PageFaultReport {
    FaultTotals totals;                     ///< of all processes
    std::vector<FaultTotals> processes;     ///< of each, in the order of Report::processes
    std::vector<FaultStackReport> stacks;   ///< most faults last
    std::optional<ResidentReport> resident; ///< of all processes; absent: not followed
    std::vector<ResidentReport> resident_of_processes; ///< like `processes`; or empty
};

/// Most faults last.
void sort_fault_stacks(PageFaultReport* report);

FaultTotals operator+(const FaultTotals& a, const FaultTotals& b);

/// "3 heap", "12 /usr/lib/libc.so.6 (0x1000-0x5000)"
std::string touched_text(const TouchedCount& touched);
/// "12 minor, 1 major; 3 lost samples ..."
std::string fault_totals_text(const FaultTotals& totals);
/// "Still there: ...\n", or "" where that is not followed.
std::string resident_line(const PageFaultReport& faults, std::optional<std::uint32_t> process);
/// The call stacks of one process, or of all, most faults last, `limit` of them; one paragraph for
/// each.
void write_fault_stacks(const PageFaultReport& faults, std::optional<std::uint32_t> process,
                        std::size_t limit, NameStyle style, ReportSink& sink);

} // namespace memleax
