// SPDX-License-Identifier: GPL-3.0-or-later
#include "summary.hpp"

#include <array>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "memleax/report/live_lines.hpp"
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
    if (suspects.stacks == 0) {
        return {Summary::Mood::good, fmt::format("Nothing is older than {} s", age), "", ""};
    }
    return {Summary::Mood::not_judged,
            fmt::format("{} may leak: {} older than {} s", number_of(suspects.stacks, "call stack"),
                        suspects.amount(), age),
            suspects.stacks == 1 ? "It is" : "Most is held by", place_of(suspects.worst)};
}

} // namespace

Summary summarize(const Report& report) {
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

} // namespace memleax
