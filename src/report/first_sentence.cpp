// SPDX-License-Identifier: GPL-3.0-or-later
#include "first_sentence.hpp"

#include <array>
#include <tuple>
#include <variant>

#include <fmt/format.h>

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

std::string sentence_amount(BlockCount count) {
    return fmt::format("{} in {}", bytes_text(static_cast<double>(count.bytes)),
                       number_of(count.blocks, "block"));
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

/// The call stacks of one verdict.
struct Group {
    std::uint64_t stacks = 0;
    BlockCount live;
    const CallStackReport* worst = nullptr;

    void add(const CallStackReport& stack) {
        const auto cost = [](const CallStackReport& each) {
            return std::tuple(each.judgement ? each.judgement->bytes_per_s : 0, each.live.bytes,
                              each.judgement ? each.judgement->blocks_per_s : 0);
        };
        ++stacks;
        live = live + stack.live;
        if (worst == nullptr || cost(stack) > cost(*worst)) {
            worst = &stack;
        }
    }
    /// "; 2 more call stacks leak".
    [[nodiscard]] std::string others(const char* verb) const {
        return stacks < 2 ? ""
                          : fmt::format("; {} more call stack{} {}{}", stacks - 1,
                                        stacks == 2 ? "" : "s", verb, stacks == 2 ? "s" : "");
    }
    /// "3 call stacks hold 1.2 KiB in 5 blocks".
    [[nodiscard]] std::string holding() const {
        return fmt::format("{} hold{} {}", number_of(stacks, "call stack"), stacks == 1 ? "s" : "",
                           sentence_amount(live));
    }
};

std::string leak_sentence(const Group& leaking, NameStyle style) {
    const Judgement& judgement = *leaking.worst->judgement;
    const auto* reason = std::get_if<reason::StayForGood>(&judgement.reason);
    return fmt::format("LEAK: {}: {}{}{}", place_of(*leaking.worst, style), growth_text(judgement),
                       reason != nullptr ? ", " + percent(reason->share) + " never freed" : "",
                       leaking.others("leak"));
}

std::string lost_sentence(const Group& lost, NameStyle style) {
    const Judgement& judgement = *lost.worst->judgement;
    const auto* reason = std::get_if<reason::Lost>(&judgement.reason);
    const BlockCount count =
        reason != nullptr ? reason->definite + reason->indirect : lost.worst->live;
    const std::string others =
        lost.stacks < 2 ? ""
                        : fmt::format("; {} more call stack{} lost blocks", lost.stacks - 1,
                                      lost.stacks == 2 ? " has" : "s have");
    return fmt::format("LOST: {}: {} that nothing points to any more{}",
                       place_of(*lost.worst, style), sentence_amount(count), others);
}

/// Lost blocks that no call stack of the report has: mostly from before the watching.
BlockCount lost_elsewhere(const Report& report) {
    BlockCount count;
    // Of several processes some may have been looked at.
    if (report.leak_check && (report.leak_check->complete || report.follows_forks)) {
        for (const LeakRecord& record : report.leak_check->records) {
            const bool is_lost =
                record.loss == LossClass::definite || record.loss == LossClass::indirect;
            count = is_lost && record.callstack == 0 ? count + record.count : count;
        }
    }
    return count;
}

/// Where no call stack has live blocks, and none is lost.
std::string nothing_live_sentence(const Report& report) {
    const Report::Events& events = report.session.events;
    const std::uint64_t mapped = report.mapped ? report.mapped->mapped : 0;
    if (events.alloc + events.realloc + mapped != 0) {
        return "No leak seen: nothing that was allocated meanwhile is still live";
    }
    if (events.unfollowed_alloc != 0) {
        return fmt::format("Not judged: none of {} could be followed",
                           number_of(events.unfollowed_alloc, "allocation"));
    }
    const bool is_lost_known = report.leak_check && report.leak_check->complete &&
                               report.leak_check->total(LossClass::definite).blocks == 0;
    return std::string("Nothing to judge: no allocation was seen") +
           (is_lost_known ? "; no block of the heap is lost" : "");
}

std::string growth_sentence(const Group& growing, NameStyle style) {
    const Judgement& judgement = *growing.worst->judgement;
    const auto* reason = std::get_if<reason::Stay>(&judgement.reason);
    return fmt::format("GROWING: {}: {}{}; too early to tell {}{}", place_of(*growing.worst, style),
                       growth_text(judgement),
                       reason != nullptr ? ", " + percent(reason->share) + " not freed so far" : "",
                       reason != nullptr && reason->may_fill_up ? "a leak from a cache that fills"
                                                                : "whether it leaks",
                       growing.others("grow"));
}

} // namespace

std::string first_sentence(const Report& report) {
    std::array<Group, kVerdicts> groups; // by verdict
    Group judged;
    Group unjudged;
    for (const CallStackReport& stack : report.callstacks) {
        if (stack.live.blocks == 0) {
            continue;
        }
        (stack.judgement ? judged : unjudged).add(stack);
        if (stack.judgement) {
            groups.at(static_cast<std::size_t>(stack.judgement->verdict)).add(stack);
        }
    }
    const auto of = [&groups](Verdict verdict) -> const Group& {
        return groups.at(static_cast<std::size_t>(verdict));
    };
    if (of(Verdict::lost).stacks > 0) {
        return lost_sentence(of(Verdict::lost), report.name_style);
    }
    const BlockCount lost = lost_elsewhere(report);
    if (of(Verdict::leaking).stacks > 0) { // which goes on
        return leak_sentence(of(Verdict::leaking), report.name_style) +
               (lost.blocks > 0 ? "; besides, lost: " + sentence_amount(lost) : "");
    }
    if (lost.blocks > 0) {
        return fmt::format("LOST: {} that nothing points to any more, allocated where nobody "
                           "watched",
                           sentence_amount(lost));
    }
    const std::uint64_t hidden = report.totals.leaking_stacks;
    const std::string and_hidden =
        hidden == 0 ? ""
                    : fmt::format("; hidden: {} called leaking", number_of(hidden, "call stack"));
    if (of(Verdict::growing).stacks > 0) {
        return growth_sentence(of(Verdict::growing), report.name_style) + and_hidden;
    }
    if (unjudged.stacks > 0) {
        return fmt::format("Not judged, for want of intervals: {}{}", unjudged.holding(),
                           and_hidden);
    }
    if (judged.stacks == 0 && report.has_page_faults_only()) {
        const FaultTotals& totals = report.page_faults->totals;
        return number_of(totals.minor + totals.major, "page fault") + "; no allocation was seen" +
               and_hidden;
    }
    if (judged.stacks == 0) {
        return nothing_live_sentence(report) + and_hidden;
    }
    const Group& early = of(Verdict::too_early);
    if (early.stacks == judged.stacks) {
        return fmt::format("Too early to tell: {} after {} s{}", judged.holding(),
                           seconds_text(report.session.duration_s), and_hidden);
    }
    const std::string but_early =
        early.stacks == 0 ? ", and nothing keeps growing"
                          : fmt::format("; too early to tell of {} of them ({})", early.stacks,
                                        bytes_text(static_cast<double>(early.live.bytes)));
    return fmt::format("No leak seen: {}{}{}", judged.holding(), but_early, and_hidden);
}

} // namespace memleax
