// SPDX-License-Identifier: GPL-3.0-or-later
#include "summary.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "conclusion.hpp"
#include "leak_scope.hpp"
#include "memleax/report/coverage.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// "1 call stack leaks", "2 call stacks leak".
std::string do_what(std::uint64_t stacks, const char* verb) {
    return fmt::format("{} {}{}", number_of(stacks, "call stack"), verb, stacks == 1 ? "s" : "");
}

std::string place_of(const CallStackReport* stack) {
    if (stack == nullptr || stack->frames.empty()) {
        return "";
    }
    return frame_name(*stack->frames.at(where_of(*stack)), NameStyle::folded);
}

/// Of the worst, if others are meant, too.
std::string growth(const StackGroup& group) {
    const char* which = group.stacks == 1 ? "It" : "The worst";
    const double rate = group.worst->judgement->bytes_per_s;
    return rate > 0 ? fmt::format("{} grows by {}/s", which, bytes_text(rate))
                    : fmt::format("{} is", which);
}

/// By age, which is all that there is to go by.
Summary summarize_unjudged(const Report& report) {
    std::uint64_t stacks = 0;
    BlockCount old;
    const CallStackReport* worst = nullptr;
    for (const CallStackReport& stack : report.callstacks) {
        const BlockCount held = stack.may_leak();
        if (held.blocks == 0 || stack.judgement) {
            continue;
        }
        ++stacks;
        old = old + held;
        worst = worst == nullptr || held.bytes >= worst->may_leak().bytes ? &stack : worst;
    }
    const std::string age = seconds_text(report.session.expire_s);
    if (stacks == 0) {
        return {Summary::Mood::not_judged, "Not judged, for want of intervals",
                fmt::format("Nothing is older than {} s", age)};
    }
    return {Summary::Mood::not_judged,
            fmt::format("{} may leak: {} older than {} s", number_of(stacks, "call stack"),
                        amount_text(old), age),
            stacks == 1 ? "It is" : "Most is held by", place_of(worst)};
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
    if (!found.unread.empty()) {
        return {Summary::Mood::not_judged, "No block is known to be lost", found.unread};
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

Summary summary_of(const Report& report, const Conclusion& found) {
    switch (found.kind) {
    case Conclusion::Kind::lost: {
        const StackGroup& lost = found.of(Verdict::lost);
        return {Summary::Mood::leaking,
                fmt::format("{} lost blocks: nothing points to them any more",
                            lost.stacks == 1 ? "1 call stack has"
                                             : fmt::format("{} call stacks have", lost.stacks)),
                growth(lost), place_of(lost.worst)};
    }
    case Conclusion::Kind::leaking: {
        const StackGroup& leaking = found.of(Verdict::leaking);
        return {Summary::Mood::leaking,
                fmt::format("{}: {}", do_what(leaking.stacks, "leak"), amount_text(leaking.live)),
                growth(leaking), place_of(leaking.worst)};
    }
    case Conclusion::Kind::growing: {
        const StackGroup& growing = found.of(Verdict::growing);
        return {Summary::Mood::growing,
                fmt::format("No certain leak, but {}: {}", do_what(growing.stacks, "grow"),
                            amount_text(growing.live)),
                growth(growing), place_of(growing.worst)};
    }
    case Conclusion::Kind::unjudged:
        return summarize_unjudged(report);
    case Conclusion::Kind::page_faults_only: {
        const FaultTotals& totals = report.page_faults->totals;
        return {Summary::Mood::not_judged,
                number_of(totals.minor + totals.major, "page fault") + ", and no allocation"};
    }
    case Conclusion::Kind::nothing_live:
        return {Summary::Mood::good, "No leak found",
                "Nothing that was allocated meanwhile is still live"};
    case Conclusion::Kind::partly_unknown:
        return {Summary::Mood::not_judged, "Not judged: " + found.unknown_text()};
    case Conclusion::Kind::all_hidden:
        return {Summary::Mood::not_judged,
                "Not judged: all that is still live is hidden by ignore or only"};
    case Conclusion::Kind::none_followed:
        return {Summary::Mood::not_judged,
                fmt::format("Not judged: none of {} could be followed",
                            number_of(report.session.events.unfollowed_alloc, "allocation"))};
    case Conclusion::Kind::nothing_seen:
        return {Summary::Mood::not_judged, "Nothing to judge: no allocation was seen",
                found.is_none_lost ? "No block of the heap is lost" : ""};
    case Conclusion::Kind::too_early:
        return {Summary::Mood::too_early, "Too early to tell",
                fmt::format("{} s are too short a time to judge {} by",
                            seconds_text(report.session.duration_s),
                            number_of(found.judged.stacks, "call stack"))};
    case Conclusion::Kind::partly_too_early: {
        const StackGroup& early = found.of(Verdict::too_early);
        return {Summary::Mood::too_early,
                fmt::format("No leak found, but too early to tell of {}",
                            number_of(early.stacks, "call stack")),
                fmt::format("{}, of which {} are not judged yet", found.judged.holding(),
                            bytes_text(static_cast<double>(early.live.bytes)))};
    }
    case Conclusion::Kind::steady:
        return {Summary::Mood::good, "No leak found",
                fmt::format("{}, and none of them keeps growing", found.judged.holding())};
    }
    return {};
}

/// A hidden leak is no all-clear, nor is one that could not be seen.
Summary summarize_watching(const Report& report, const Conclusion& found) {
    Summary summary = summary_of(report, found);
    const std::string unknown = found.unknown_text();
    if (!unknown.empty() && (found.kind == Conclusion::Kind::steady ||
                             found.kind == Conclusion::Kind::partly_too_early)) {
        summary.mood = std::max(summary.mood, Summary::Mood::not_judged);
        summary.headline += "; but " + unknown;
    }
    if (found.hidden > 0) {
        summary.mood = std::max(summary.mood, Summary::Mood::not_judged);
        summary.headline += found.hidden_text();
    }
    return summary;
}

/// Where the process grows by what is not watched, that none of the watched blocks leaks is no
/// all-clear.
void add_coverage(const Report& report, Summary* summary) {
    const auto coverage = coverage_of(report);
    if (!coverage || !coverage->is_gap) {
        return;
    }
    if (summary->mood == Summary::Mood::good) {
        *summary = {Summary::Mood::not_judged,
                    "Not judged: the process grows by what is not watched", coverage->text()};
        return;
    }
    summary->mood = std::max(summary->mood, Summary::Mood::not_judged);
    std::string& text = summary->detail.empty() ? summary->detail : summary->besides;
    text += (text.empty() ? "" : "; ") + coverage->text();
}

/// What else there is to tell where lost blocks come first.
std::string besides_lost(const Report& report) {
    const Conclusion found = conclude(report);
    const Summary watched = summarize_watching(report, found);
    const bool says_something = watched.mood >= Summary::Mood::not_judged &&
                                found.kind != Conclusion::Kind::lost &&
                                found.kind != Conclusion::Kind::nothing_seen;
    const LeakScope scope = leak_scope(report);
    const std::string partly =
        scope.is_all() ? "" : fmt::format("only {} could be looked at", scope.text());
    return fmt::format("{}{}{}", says_something ? watched.headline : "",
                       says_something && !partly.empty() ? "; " : "", partly);
}

} // namespace

Summary summarize(const Report& report) {
    if (leak_scope(report).is_some() && report.leak_check->total(LossClass::definite).blocks > 0) {
        Summary summary = summarize_lost(report);
        summary.besides = besides_lost(report);
        add_coverage(report, &summary);
        return summary;
    }
    if (report.session.is_look && report.leak_check) {
        return summarize_look(*report.leak_check);
    }
    Summary summary = summarize_watching(report, conclude(report));
    add_coverage(report, &summary);
    return summary;
}

} // namespace memleax
