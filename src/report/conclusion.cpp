// SPDX-License-Identifier: GPL-3.0-or-later
#include "conclusion.hpp"

#include <tuple>

#include <fmt/format.h>

#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

Conclusion::Kind kind_without_stacks(const Conclusion& found, const Report& report) {
    if (report.has_page_faults_only()) {
        return Conclusion::Kind::page_faults_only;
    }
    const Report::Events& events = report.session.events;
    const std::uint64_t mapped = report.mapped ? report.mapped->mapped : 0;
    if (events.alloc + events.realloc + mapped != 0) {
        if (report.totals.live.blocks != 0) {
            return Conclusion::Kind::all_hidden;
        }
        return found.unknown_text().empty() ? Conclusion::Kind::nothing_live
                                            : Conclusion::Kind::partly_unknown;
    }
    return events.unfollowed_alloc != 0 ? Conclusion::Kind::none_followed
                                        : Conclusion::Kind::nothing_seen;
}

Conclusion::Kind kind_of(const Conclusion& found, const Report& report) {
    if (found.of(Verdict::lost).stacks > 0) {
        return Conclusion::Kind::lost;
    }
    if (found.of(Verdict::leaking).stacks > 0) {
        return Conclusion::Kind::leaking;
    }
    if (found.of(Verdict::growing).stacks > 0) {
        return Conclusion::Kind::growing;
    }
    if (found.unjudged.stacks > 0) {
        return Conclusion::Kind::unjudged;
    }
    if (found.judged.stacks == 0) {
        return kind_without_stacks(found, report);
    }
    const std::uint64_t early = found.of(Verdict::too_early).stacks;
    if (early == found.judged.stacks) {
        return Conclusion::Kind::too_early;
    }
    return early > 0 ? Conclusion::Kind::partly_too_early : Conclusion::Kind::steady;
}

} // namespace

void StackGroup::add(const CallStackReport& stack) {
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

std::string StackGroup::holding() const {
    return fmt::format("{} hold{} {}", number_of(stacks, "call stack"), stacks == 1 ? "s" : "",
                       amount_text(live));
}

std::string Conclusion::hidden_text() const {
    return hidden == 0
               ? ""
               : fmt::format("; hidden: {} called leaking", number_of(hidden, "call stack"));
}

std::string Conclusion::unknown_text() const {
    std::string calls = unfollowed == 0 ? ""
                                        : fmt::format("{} could not be followed",
                                                      number_of(unfollowed, "allocation"));
    if (untracked.blocks == 0) {
        return calls;
    }
    const bool is_one = untracked.blocks == 1;
    return fmt::format("{}{}{} {} set aside, of which nobody knows whether {} freed", calls,
                       calls.empty() ? "" : ", and ", amount_text(untracked),
                       is_one ? "was" : "were", is_one ? "it is" : "they are");
}

Conclusion conclude(const Report& report) {
    Conclusion found;
    found.unfollowed = report.session.events.unfollowed_alloc;
    found.untracked = report.totals.untracked;
    for (const CallStackReport& stack : report.callstacks) {
        if (stack.live.blocks == 0) {
            continue;
        }
        (stack.judgement ? found.judged : found.unjudged).add(stack);
        if (stack.judgement) {
            found.by_verdict.at(static_cast<std::size_t>(stack.judgement->verdict)).add(stack);
        }
    }
    found.kind = kind_of(found, report);
    const bool shows_leak =
        found.kind == Conclusion::Kind::lost || found.kind == Conclusion::Kind::leaking;
    found.hidden = shows_leak ? 0 : report.totals.leaking_stacks;
    found.is_none_lost = report.leak_check && report.leak_check->complete &&
                         report.leak_check->unread.empty() &&
                         report.leak_check->total(LossClass::definite).blocks == 0;
    return found;
}

std::string amount_text(BlockCount count) {
    return fmt::format("{} in {}", bytes_text(static_cast<double>(count.bytes)),
                       number_of(count.blocks, "block"));
}

} // namespace memleax
