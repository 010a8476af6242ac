// SPDX-License-Identifier: GPL-3.0-or-later
#include "first_sentence.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "conclusion.hpp"
#include "leak_scope.hpp"
#include "memleax/report/growth_text.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

std::string percent(double share) {
    const double p = share * 100;
    if (p > 99 && p < 100) { // not all of them
        return "over 99 %";
    }
    return p < 1 && p > 0 ? "under 1 %" : fmt::format("{:.0f} %", p);
}

/// With what it has called, if that is not just malloc.
std::string place_of(const CallStackReport& stack, NameStyle style) {
    if (stack.frames.empty()) {
        return "a call stack that is not known";
    }
    const std::size_t own = where_of(stack);
    std::string place = place_text(*stack.frames.at(own), style);
    if (own == 0) {
        return place;
    }
    const SourceFrame& called = *stack.frames.at(own - 1);
    // Where the allocator's function has no name, its address tells nobody anything.
    const std::string name =
        called.function.empty() && !is_own_code(called) ? "" : frame_name(called, style);
    return name.empty() || name == "malloc" ? place : fmt::format("{} by way of {}", place, name);
}

/// "; 2 more call stacks leak".
std::string others(const StackGroup& group, const char* verb) {
    return group.stacks < 2
               ? ""
               : fmt::format("; {} more call stack{} {}{}", group.stacks - 1,
                             group.stacks == 2 ? "" : "s", verb, group.stacks == 2 ? "s" : "");
}

std::string leak_sentence(const StackGroup& leaking, NameStyle style) {
    const Judgement& judgement = *leaking.worst->judgement;
    const auto* reason = std::get_if<reason::StayForGood>(&judgement.reason);
    return fmt::format("LEAK: {}: {}{}{}", place_of(*leaking.worst, style), growth_text(judgement),
                       reason != nullptr ? ", " + percent(reason->share) + " never freed" : "",
                       others(leaking, "leak"));
}

std::string lost_sentence(const CallStackReport& worst, BlockCount count, std::uint64_t stacks,
                          NameStyle style) {
    const std::string more = stacks < 2 ? ""
                                        : fmt::format("; {} more call stack{} lost blocks",
                                                      stacks - 1, stacks == 2 ? " has" : "s have");
    return fmt::format("LOST: {}: {} that nothing points to any more{}", place_of(worst, style),
                       amount_text(count), more);
}

std::string lost_sentence(const StackGroup& lost, NameStyle style) {
    const auto* reason = std::get_if<reason::Lost>(&lost.worst->judgement->reason);
    return lost_sentence(*lost.worst,
                         reason != nullptr ? reason->definite + reason->indirect : lost.worst->live,
                         lost.stacks, style);
}

/// What a look has found to be lost, and no verdict says.
struct LostElsewhere {
    BlockCount unwatched; ///< no call stack has them: mostly from before the watching
    /// Set aside since (a pause), so that the call stack has them no more. Those that are hidden
    /// are not among them.
    BlockCount set_aside;
    std::uint64_t stacks = 0; ///< that these belong to
    const CallStackReport* worst = nullptr;
    BlockCount of_worst;

    [[nodiscard]] BlockCount all() const { return unwatched + set_aside; }
};

LostElsewhere lost_elsewhere(const Report& report) {
    LostElsewhere lost;
    if (!report.leak_check || !leak_scope(report).is_some()) {
        return lost;
    }
    std::map<std::pair<std::uint32_t, std::uint64_t>, BlockCount> by_stack;
    for (const LeakRecord& record : report.leak_check->records) {
        if (record.loss == LossClass::definite || record.loss == LossClass::indirect) {
            BlockCount& sum = record.callstack == 0 ? lost.unwatched
                                                    : by_stack[{record.process, record.callstack}];
            sum = sum + record.count;
        }
    }
    for (const CallStackReport& stack : report.callstacks) {
        const auto found = by_stack.find({stack.process, stack.id});
        if (found == by_stack.end() ||
            (stack.judgement && stack.judgement->verdict == Verdict::lost)) {
            continue;
        }
        ++lost.stacks;
        lost.set_aside = lost.set_aside + found->second;
        if (lost.worst == nullptr || found->second.bytes > lost.of_worst.bytes) {
            lost.worst = &stack;
            lost.of_worst = found->second;
        }
    }
    return lost;
}

std::string growth_sentence(const StackGroup& growing, NameStyle style) {
    const Judgement& judgement = *growing.worst->judgement;
    if (const auto* larger = std::get_if<reason::EverLarger>(&judgement.reason)) {
        return fmt::format(
            "GROWING: {}: {}, {} grown to {}; too early to tell a leak from a "
            "buffer that fills{}",
            place_of(*growing.worst, style), growth_text(judgement),
            number_of(larger->live.blocks, "block") + (larger->live.blocks == 1 ? " has" : " have"),
            bytes_text(static_cast<double>(larger->live.bytes)), others(growing, "grow"));
    }
    const auto* reason = std::get_if<reason::Stay>(&judgement.reason);
    return fmt::format("GROWING: {}: {}{}; too early to tell {}{}", place_of(*growing.worst, style),
                       growth_text(judgement),
                       reason != nullptr ? ", " + percent(reason->share) + " not freed so far" : "",
                       reason != nullptr && reason->may_fill_up ? "a leak from a cache that fills"
                                                                : "whether it leaks",
                       others(growing, "grow"));
}

/// Behind what would be an all-clear otherwise.
std::string but_unknown(const Conclusion& found) {
    const std::string unknown = found.unknown_text();
    return unknown.empty() ? "" : "; but " + unknown;
}

/// What to do where the watching has ended before any block was old: no call stack is shown.
std::string shorter_expire(const Report& report) {
    const bool is_short = report.session.duration_s < report.session.expire_s;
    return !is_short || std::any_of(report.callstacks.begin(), report.callstacks.end(),
                                    [](const auto& stack) { return stack.is_in_text(); })
               ? ""
               : fmt::format("; to see where, give a shorter --expire ({} s)",
                             seconds_text(report.session.expire_s));
}

/// Where nothing is lost and nothing leaks.
std::string harmless_sentence(const Report& report, const Conclusion& found) {
    switch (found.kind) {
    case Conclusion::Kind::lost:
    case Conclusion::Kind::leaking:
        break;
    case Conclusion::Kind::growing:
        return growth_sentence(found.of(Verdict::growing), report.name_style);
    case Conclusion::Kind::unjudged:
        return "Not judged, for want of intervals: " + found.unjudged.holding();
    case Conclusion::Kind::page_faults_only: {
        const FaultTotals& totals = report.page_faults->totals;
        return number_of(totals.minor + totals.major, "page fault") + "; no allocation was seen";
    }
    case Conclusion::Kind::nothing_live:
        return "No leak seen: nothing that was allocated meanwhile is still live";
    case Conclusion::Kind::partly_unknown:
        return "Not judged: " + found.unknown_text();
    case Conclusion::Kind::all_hidden:
        return "Not judged: all that is still live is hidden by ignore or only";
    case Conclusion::Kind::none_followed:
        return fmt::format("Not judged: none of {} could be followed",
                           number_of(report.session.events.unfollowed_alloc, "allocation"));
    case Conclusion::Kind::nothing_seen:
        return std::string("Nothing to judge: no allocation was seen") +
               (found.is_none_lost ? "; no block of the heap is lost" : "");
    case Conclusion::Kind::too_early:
        return fmt::format("Too early to tell: {} after {} s{}", found.judged.holding(),
                           seconds_text(report.session.duration_s), shorter_expire(report));
    case Conclusion::Kind::partly_too_early: {
        const StackGroup& early = found.of(Verdict::too_early);
        return fmt::format("No leak seen: {}; too early to tell of {} of them ({}){}",
                           found.judged.holding(), early.stacks,
                           bytes_text(static_cast<double>(early.live.bytes)), but_unknown(found));
    }
    case Conclusion::Kind::steady:
        return fmt::format("No leak seen: {}, and nothing keeps growing{}", found.judged.holding(),
                           but_unknown(found));
    }
    return "";
}

} // namespace

std::string first_sentence(const Report& report) {
    const Conclusion found = conclude(report);
    if (found.kind == Conclusion::Kind::lost) {
        return lost_sentence(found.of(Verdict::lost), report.name_style);
    }
    const LostElsewhere lost = lost_elsewhere(report);
    if (found.kind == Conclusion::Kind::leaking) { // which goes on
        return leak_sentence(found.of(Verdict::leaking), report.name_style) +
               (lost.all().blocks > 0 ? "; besides, lost: " + amount_text(lost.all()) : "");
    }
    if (lost.worst != nullptr) {
        return lost_sentence(*lost.worst, lost.of_worst, lost.stacks, report.name_style) +
               (lost.unwatched.blocks > 0 ? fmt::format("; besides, lost: {}, allocated where "
                                                        "nobody watched",
                                                        amount_text(lost.unwatched))
                                          : "") +
               but_unknown(found);
    }
    if (lost.unwatched.blocks > 0) {
        return fmt::format("LOST: {} that nothing points to any more, allocated where nobody "
                           "watched",
                           amount_text(lost.unwatched));
    }
    return harmless_sentence(report, found) + found.hidden_text();
}

} // namespace memleax
