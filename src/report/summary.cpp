// SPDX-License-Identifier: GPL-3.0-or-later
#include "summary.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "memleax/report/live_lines.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// The call stacks of one kind.
struct Group {
    std::uint64_t stacks = 0;
    BlockCount held;
    const CallStackReport* worst = nullptr;

    void add(const CallStackReport& stack, BlockCount count, bool is_worst) {
        ++stacks;
        held.blocks += count.blocks;
        held.bytes += count.bytes;
        worst = worst == nullptr || is_worst ? &stack : worst;
    }
    [[nodiscard]] std::string amount() const {
        return fmt::format("{} in {}", bytes_text(static_cast<double>(held.bytes)),
                           number_of(held.blocks, "block"));
    }
    /// "1 call stack leaks", "2 call stacks leak".
    [[nodiscard]] std::string do_what(const char* verb) const {
        return fmt::format("{} {}{}", number_of(stacks, "call stack"), verb,
                           stacks == 1 ? "s" : "");
    }
};

std::string place_of(const CallStackReport* stack) {
    if (stack == nullptr || stack->frames.empty()) {
        return "";
    }
    return frame_name(*stack->frames.at(where_of(*stack)), NameStyle::folded);
}

bool is_worse(const Judgement& a, const Judgement& b) {
    return std::tuple(a.score, a.bytes_per_s) > std::tuple(b.score, b.bytes_per_s);
}

/// Of the worst, if others are meant, too.
std::string growth(const Group& group) {
    const char* which = group.stacks == 1 ? "It" : "The worst";
    const double rate = group.worst->judgement->bytes_per_s;
    return rate > 0 ? fmt::format("{} grows by {}/s", which, bytes_text(rate))
                    : fmt::format("{} is", which);
}

Summary summarize_unjudged(const Report& report) {
    Group suspects;
    for (const CallStackReport& stack : report.callstacks) {
        if (const BlockCount held = stack.may_leak(); held.blocks > 0) {
            suspects.add(stack, held,
                         suspects.worst == nullptr ||
                             held.bytes >= suspects.worst->may_leak().bytes);
        }
    }
    const std::string age = seconds_text(report.session.expire_s);
    if (suspects.stacks == 0 && report.has_page_faults_only()) {
        const FaultTotals& totals = report.page_faults->totals;
        return {Summary::Mood::not_judged,
                number_of(totals.minor + totals.major, "page fault") + ", and no allocation", "",
                ""};
    }
    if (suspects.stacks == 0) {
        return {Summary::Mood::good, fmt::format("Nothing is older than {} s", age), "", ""};
    }
    return {Summary::Mood::not_judged,
            fmt::format("{} may leak: {} older than {} s", number_of(suspects.stacks, "call stack"),
                        suspects.amount(), age),
            suspects.stacks == 1 ? "It is" : "Most is held by", place_of(suspects.worst)};
}

std::string amount_text(BlockCount count) {
    return fmt::format("{} in {}", bytes_text(static_cast<double>(count.bytes)),
                       number_of(count.blocks, "block"));
}

const LeakRecord* worst_definite(const LeakFindings& found) {
    const LeakRecord* worst = nullptr;
    for (const LeakRecord& record : found.records) {
        if (record.loss == LossClass::definite &&
            (worst == nullptr || record.count.bytes > worst->count.bytes)) {
            worst = &record;
        }
    }
    return worst;
}

/// Of a record whose call stack is not known.
std::string blocks_text(const LeakRecord& record) {
    const std::string type = record.type.empty() ? "" : fmt::format(" ({})", record.type);
    return record.size == 0
               ? fmt::format("{} of different sizes{}", number_of(record.count.blocks, "block"),
                             type)
               : fmt::format("{} of {} bytes{}", number_of(record.count.blocks, "block"),
                             record.size, type);
}

/// The frame that it is named by: as its call stack, which knows more wrappers of allocators.
std::size_t where_of(const Report& report, const LeakRecord& record) {
    const auto stack = std::find_if(
        report.callstacks.begin(), report.callstacks.end(), [&record](const auto& each) {
            return each.id == record.callstack && each.process == record.process;
        });
    return stack != report.callstacks.end() && !stack->frames.empty() ? where_of(*stack)
                                                                      : own_frame(record.frames);
}

/// Blocks that nothing points to: that is a proof, and comes first.
Summary summarize_lost(const Report& report) {
    const LeakFindings& found = *report.leak_check;
    const BlockCount lost = found.total(LossClass::definite) + found.total(LossClass::indirect);
    Summary summary{Summary::Mood::leaking,
                    fmt::format("{} {} lost: nothing points to {} any more", amount_text(lost),
                                lost.blocks == 1 ? "is" : "are", lost.blocks == 1 ? "it" : "them")};
    const LeakRecord* worst = worst_definite(found);
    if (worst == nullptr) {
        return summary;
    }
    const bool is_all = worst->count.blocks == lost.blocks;
    if (worst->callstack == 0 || worst->frames.empty()) {
        summary.detail =
            fmt::format("{} {}", is_all ? "That is" : "The largest part is", blocks_text(*worst));
    } else {
        summary.detail =
            fmt::format("{} was allocated by", is_all ? "That" : "The largest part of it");
        summary.place = frame_name(*worst->frames.at(where_of(report, *worst)), NameStyle::folded);
    }
    return summary;
}

/// Of a look that has found none, or has not come to an end.
Summary summarize_look(const LeakFindings& found) {
    if (!found.complete) {
        return {Summary::Mood::not_judged, "The heap could not be read whole", found.why};
    }
    const std::uint64_t interior = found.total(LossClass::possible).blocks;
    return {Summary::Mood::good, "No block is lost",
            fmt::format(
                "A chain of pointers leads to {}{}",
                amount_text(found.total(LossClass::reachable) + found.total(LossClass::possible)),
                interior == 0
                    ? ""
                    : fmt::format(", to {} of them by pointers into them only", interior))};
}

Summary summarize_watching(const Report& report) {
    std::array<Group, kVerdicts> groups; // by verdict
    std::uint64_t judged = 0;
    for (const CallStackReport& stack : report.callstacks) {
        if (!stack.judgement) {
            continue;
        }
        ++judged;
        Group& group = groups.at(static_cast<std::size_t>(stack.judgement->verdict));
        group.add(stack, stack.live,
                  group.worst == nullptr || is_worse(*stack.judgement, *group.worst->judgement));
    }
    const auto of = [&groups](Verdict verdict) -> const Group& {
        return groups.at(static_cast<std::size_t>(verdict));
    };
    if (judged == 0 && !report.callstacks.empty()) {
        return summarize_unjudged(report);
    }
    if (const Group& lost = of(Verdict::lost); lost.stacks > 0) {
        return {Summary::Mood::leaking,
                fmt::format("{} lost blocks: nothing points to them any more",
                            lost.stacks == 1 ? "1 call stack has"
                                             : fmt::format("{} call stacks have", lost.stacks)),
                growth(lost), place_of(lost.worst)};
    }
    if (const Group& leaking = of(Verdict::leaking); leaking.stacks > 0) {
        return {Summary::Mood::leaking,
                fmt::format("{}: {}", leaking.do_what("leak"), leaking.amount()), growth(leaking),
                place_of(leaking.worst)};
    }
    if (const Group& growing = of(Verdict::growing); growing.stacks > 0) {
        return {
            Summary::Mood::growing,
            fmt::format("No certain leak, but {}: {}", growing.do_what("grow"), growing.amount()),
            growth(growing), place_of(growing.worst)};
    }
    if (judged > 0 && of(Verdict::too_early).stacks == judged) {
        return {Summary::Mood::too_early, "Too early to tell",
                fmt::format("{} s are too short a time to judge {} by",
                            seconds_text(report.session.duration_s),
                            number_of(judged, "call stack")),
                ""};
    }
    return {Summary::Mood::good, "No leak found",
            judged == 0 ? "Nothing that was allocated meanwhile is still live"
                        : fmt::format("{} hold{} {} in {}, and none of them keeps growing",
                                      number_of(judged, "call stack"), judged == 1 ? "s" : "",
                                      bytes_text(static_cast<double>(report.totals.live.bytes)),
                                      number_of(report.totals.live.blocks, "block")),
            ""};
}

} // namespace

Summary summarize(const Report& report) {
    const bool is_look = report.session.is_look;
    if (!report.leak_check || !report.leak_check->complete ||
        report.leak_check->total(LossClass::definite).blocks == 0) {
        return is_look && report.leak_check ? summarize_look(*report.leak_check)
                                            : summarize_watching(report);
    }
    Summary summary = summarize_lost(report);
    const Summary watched = is_look ? Summary{} : summarize_watching(report);
    if (watched.mood >= Summary::Mood::not_judged) {
        summary.besides = watched.headline;
    }
    return summary;
}

} // namespace memleax
