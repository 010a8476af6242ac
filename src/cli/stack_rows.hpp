// SPDX-License-Identifier: GPL-3.0-or-later
/// Call stacks in order of what they cost, for `stats`, `since` and --interval.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "console.hpp"
#include "memleax/analysis/verdict.hpp"
#include "memleax/session/session.hpp"

namespace memleax {

struct StackRow {
    StackSnapshot stack;
    Judgement judgement;
};

enum class StackOrder { cost, bytes, blocks, rate, age };

/// What a row of a table is ordered by.
struct Cost {
    bool lost = false; ///< some of it is unreachable: it comes first
    double bytes_per_s = 0;
    double blocks_per_s = 0;
    BlockCount live;
};
using Rank = std::array<double, 4>;
/// Greater is worse. By age: of those that are equally old.
Rank rank(const Cost& cost, StackOrder order);

/// The call stacks of a process that the user wants to see and that have live blocks or let some
/// expire, worst first. `hidden` is the number of those that he does not want to see.
std::vector<StackRow> stack_rows(Session& session, ProcessAccount& process, StackOrder order,
                                 std::size_t* hidden);

/// Those of which something is still there.
std::vector<StackRow> with_live_blocks(std::vector<StackRow> rows);

/// The frame that a call stack is named by; null if it has none.
const SourceFrame* where(Session& session, ProcessAccount& process, const Backtrace& frames);
/// "shop::open (shop.cpp:40)"
std::string where_text(Session& session, ProcessAccount& process, StackId id);

Style style_of(Verdict verdict);

} // namespace memleax
