// SPDX-License-Identifier: GPL-3.0-or-later
/// The table that `stats` prints.
#pragma once

#include <string>
#include <vector>

#include "console.hpp"
#include "stack_rows.hpp"

namespace memleax {

/// What call stacks are put together by.
enum class StackGroups { none, function, line, module };

/// One line of the table: a call stack, or several.
struct StatsRow {
    std::uint64_t id = 0;     ///< of the costliest call stack
    std::uint64_t stacks = 1; ///< how many they are
    Verdict verdict = Verdict::too_early;
    BlockCount live;
    BlockCount expired;
    std::uint64_t allocated = 0; ///< blocks
    double bytes_per_s = 0;
    double blocks_per_s = 0;
    std::string where;
    std::string why;
};

/// As lines, in the order of the first call stack of each. Names are looked up for all of them.
std::vector<StatsRow> stats_rows(Session& session, ProcessAccount& process,
                                 const std::vector<StackRow>& stacks, StackGroups groups);

/// In order, as stack_rows() has call stacks; by age they stay as they are.
void sort_rows(std::vector<StatsRow>& rows, StackOrder order);

/// A heading and the lines. Where the console is too narrow for WHERE, columns are left out, but
/// never the verdict; what does not fit even so goes on below, whole.
std::string stats_table(const Console& console, const std::vector<StatsRow>& rows,
                        StackGroups groups);

} // namespace memleax
