// SPDX-License-Identifier: GPL-3.0-or-later
/// What --leak-check has found, as a model, and its forms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memleax/analysis/reachability.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

/// Blocks of one class and one size.
struct LeakRecord {
    LossClass loss{};
    std::uint64_t size = 0; ///< of each, in bytes that may be used
    BlockCount count;
    std::vector<RemoteAddr> addresses; ///< of lost ones, ascending: the first kMostAddresses
    static constexpr std::size_t kMostAddresses = 100;
};

struct LeakCheckReport {
    std::string version;
    std::int64_t pid = 0;
    std::string exe;
    std::string arch;
    std::size_t threads = 0;
    double pause_s = 0;    ///< for which the process stood still
    bool complete = false; ///< if not, no block is said to be lost, nor anything else of any
    std::string why;       ///< it is not
    std::array<BlockCount, kLossClasses> totals{}; ///< by LossClass
    std::vector<LeakRecord> records;               ///< by class, most bytes first

    [[nodiscard]] const BlockCount& total(LossClass which) const {
        return totals[static_cast<std::size_t>(which)];
    }
};

/// "definite", ... : the names in JSON.
[[nodiscard]] const char* describe(LossClass loss);

/// `classes` are those of classify() for these blocks.
std::vector<LeakRecord> leak_records(const std::vector<HeapBlock>& blocks,
                                     const std::vector<LossClass>& classes);

void write_leak_check_text(const LeakCheckReport& report, ReportSink& sink);
void write_leak_check_json(const LeakCheckReport& report, ReportSink& sink);

} // namespace memleax
