// SPDX-License-Identifier: GPL-3.0-or-later
/// What --leak-check has found, as a model, and its forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/analysis/reachability.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/report/folded_name.hpp"
#include "memleax/report/leak_findings.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

/// Of --leak-check without watching.
struct LeakCheckReport : LeakFindings {
    std::string version;
    std::int64_t pid = 0;
    std::string exe;
    std::string arch;
    std::size_t threads = 0;
};

/// "definite", ... : the names in JSON.
[[nodiscard]] const char* describe(LossClass loss);

/// What is known of a block besides its class and size.
struct BlockFacts {
    StackId stack = kNoStack; ///< where it was allocated; its frames are the caller's to fill in
    std::uint32_t type = 0;   ///< blocks of one type have one number
};
/// In the record: the stack's id, the type's number.
struct LeakRecordKey {
    StackId stack = kNoStack;
    std::uint32_t type = 0;
};

/// `classes` are those of classify() for these blocks. `facts`: of each block, or nothing of any.
/// `keys`, if it is not null, gets one for each record. `left_out`: blocks that are in no record;
/// empty: none.
std::vector<LeakRecord> leak_records(std::span<const HeapBlock> blocks,
                                     std::span<const LossClass> classes,
                                     std::span<const BlockFacts> facts = {},
                                     std::vector<LeakRecordKey>* keys = nullptr,
                                     const std::vector<bool>& left_out = {});

/// A line that says that these are the blocks that were watched, if the heap could not be listed
/// (LeakFindings::unlisted); else "".
std::string unlisted_text(std::string_view unlisted, std::uint64_t blocks);

/// The lines of these classes and of lost blocks, with the call stacks that are known.
void write_leak_findings(const LeakFindings& findings, NameStyle style, ReportSink& sink);

/// The same of one process among several, `index` in Report::processes, whose lost blocks are among
/// these records.
void write_leak_findings_of(const LeakFindings& findings, const std::vector<LeakRecord>& records,
                            std::uint32_t index, NameStyle style, ReportSink& sink);

/// Why most of the possibly lost blocks are that, in a sentence; "" if they have nothing in common.
std::string common_offset_text(const LeakFindings& findings);

/// The lines of the classes alone.
std::string leak_totals_text(const LeakFindings& findings);

/// The types with most bytes, and who holds most.
std::string heap_counts_text(const LeakFindings& findings);

void write_leak_check_text(const LeakCheckReport& report, ReportSink& sink);
void write_leak_check_json(const LeakCheckReport& report, ReportSink& sink);
/// The page of write_html(), with what such a look has found.
void write_leak_check_html(const LeakCheckReport& report, ReportSink& sink);

} // namespace memleax
