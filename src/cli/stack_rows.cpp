// SPDX-License-Identifier: GPL-3.0-or-later
#include "stack_rows.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"

namespace memleax {

namespace {

/// Greater is worse.
auto rank(const StackRow& row, StackOrder order) {
    const BlockCount live = row.stack.account.live();
    const auto bytes = static_cast<double>(live.bytes);
    using Rank = std::tuple<double, double, double>;
    switch (order) {
    case StackOrder::bytes:
        return Rank(bytes, static_cast<double>(live.blocks), 0);
    case StackOrder::blocks:
        return Rank(static_cast<double>(live.blocks), bytes, 0);
    case StackOrder::rate:
        return Rank(row.judgement.bytes_per_s, row.judgement.blocks_per_s, bytes);
    case StackOrder::age:
        return Rank(row.stack.oldest ? -static_cast<double>(row.stack.oldest->value()) : -1e300,
                    bytes, 0);
    case StackOrder::cost:
        break;
    }
    // Resources have no bytes: their number tells.
    return Rank(row.judgement.bytes_per_s, bytes, static_cast<double>(live.blocks));
}

} // namespace

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
        const bool a_is_lost = a.judgement.verdict == Verdict::lost;
        if (order == StackOrder::cost && a_is_lost != (b.judgement.verdict == Verdict::lost)) {
            return a_is_lost;
        }
        const auto left = rank(a, order);
        const auto right = rank(b, order);
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
    const std::size_t own = own_frame(frames, session.wrappers(process));
    return &*std::next(frames.begin(), static_cast<std::ptrdiff_t>(own));
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
