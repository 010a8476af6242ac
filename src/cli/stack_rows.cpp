// SPDX-License-Identifier: GPL-3.0-or-later
#include "stack_rows.hpp"

#include <algorithm>

#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"

namespace memleax {

namespace {

Cost cost_of(const StackRow& row) {
    return {.lost = row.judgement.verdict == Verdict::lost,
            .bytes_per_s = row.judgement.bytes_per_s,
            .blocks_per_s = row.judgement.blocks_per_s,
            .live = row.stack.account.live()};
}

/// Greater is worse.
double age_rank(const StackRow& row) {
    return row.stack.oldest ? -static_cast<double>(row.stack.oldest->value()) : -1e300;
}

} // namespace

Rank rank(const Cost& cost, StackOrder order) {
    const auto bytes = static_cast<double>(cost.live.bytes);
    const auto blocks = static_cast<double>(cost.live.blocks);
    switch (order) {
    case StackOrder::age:
    case StackOrder::bytes:
        return {bytes, blocks, 0, 0};
    case StackOrder::blocks:
        return {blocks, bytes, 0, 0};
    case StackOrder::rate:
        return {cost.bytes_per_s, cost.blocks_per_s, bytes, 0};
    case StackOrder::cost:
        break;
    }
    // Resources have no bytes: their number tells.
    return {cost.lost ? 1.0 : 0, cost.bytes_per_s, bytes, blocks};
}

std::vector<StackRow> stack_rows(Session& session, ProcessAccount& process, StackOrder order,
                                 std::size_t* hidden) {
    const MonotonicNs now = process.time(session.now());
    std::vector<StackRow> rows;
    const StackFindings findings =
        process.heap() != nullptr ? process.heap()->stack_findings() : StackFindings{};
    for (StackSnapshot& stack : process.tracker().snapshot(now).stacks) {
        if (!is_programs_own(stack.account.kind)) {
            continue; // an allocator's stock: its blocks have rows of their own
        }
        if (!session.filter().empty() &&
            !session.filter().shows(process.names().resolve(stack.id))) {
            ++*hidden;
            continue;
        }
        Judgement judgement =
            stack.intervals.empty() ? Judgement{} : judge(stack.intervals, now, stack.oldest);
        if (const auto finding = findings.find(stack.id); finding != findings.end()) {
            judgement = with_finding(std::move(judgement), finding->second);
        }
        rows.push_back({std::move(stack), std::move(judgement)});
    }
    std::sort(rows.begin(), rows.end(), [order](const StackRow& a, const StackRow& b) {
        if (order == StackOrder::age && age_rank(a) != age_rank(b)) {
            return age_rank(a) > age_rank(b);
        }
        const auto left = rank(cost_of(a), order);
        const auto right = rank(cost_of(b), order);
        return left != right ? left > right : a.stack.account.id < b.stack.account.id;
    });
    return rows;
}

std::vector<StackRow> with_live_blocks(std::vector<StackRow> rows) {
    std::erase_if(rows, [](const StackRow& row) { return row.stack.account.live().blocks == 0; });
    return rows;
}

const SourceFrame* where(Session& session, ProcessAccount& process, const Backtrace& frames) {
    if (frames.empty()) {
        return nullptr;
    }
    return &*frames.at(own_frame(frames, session.wrappers(process)));
}

std::string where_text(Session& session, ProcessAccount& process, StackId id) {
    const Backtrace frames = process.names().resolve(id);
    const SourceFrame* frame = where(session, process, frames);
    return frame == nullptr ? "?" : place_text(*frame, session.options().name_style);
}

Style style_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::lost:
    case Verdict::leaking:
        return Style::bad;
    case Verdict::growing:
        return Style::warning;
    case Verdict::plateau:
    case Verdict::settled:
        return Style::good;
    case Verdict::too_early:
        break;
    }
    return Style::dim;
}

} // namespace memleax
