// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/verdict_text.hpp"

#include <variant>

#include <fmt/format.h>

#include "memleax/base/printable.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

std::string percent(double share) {
    const double p = share * 100;
    return p >= 10 ? fmt::format("{:.0f}%", p) : fmt::format("{:.2g}%", p);
}

std::string rate(double per_s) {
    return per_s >= 10 ? fmt::format("{:.0f} blocks/s", per_s)
                       : fmt::format("{:.2g} blocks/s", per_s);
}

std::string duration(double s) {
    constexpr double kMinute = 60;
    constexpr double kHour = 3600;
    if (s < 10) {
        return fmt::format("{:.1f} s", s);
    }
    if (s < 5 * kMinute) {
        return fmt::format("{:.0f} s", s);
    }
    return s < 3 * kHour ? fmt::format("{:.0f} min", s / kMinute)
                         : fmt::format("{:.1f} h", s / kHour);
}

/// One function for each kind of reason.
struct ReasonText {
    double blocks_per_s;

    std::string operator()(std::monostate /*not judged*/) const { return ""; }
    std::string operator()(const reason::NothingAllocated& /*no figures*/) const {
        return "nothing was allocated in the intervals";
    }
    std::string operator()(const reason::SeenShortly& r) const {
        return fmt::format("seen for {} only", duration(r.seen_s));
    }
    std::string operator()(const reason::FewBlocks& r) const {
        return fmt::format("only {} so far", number_of(r.left, "block"));
    }
    std::string operator()(const reason::NothingOlder& r) const {
        return fmt::format("{} of blocks stay, but nothing is much older yet", percent(r.share));
    }
    std::string operator()(const reason::AllFreed& r) const {
        return fmt::format("no block of {} is left, none lived longer than {}", r.allocated,
                           duration(r.longest_life_s));
    }
    std::string operator()(const reason::OldFreed& r) const {
        return fmt::format("no block of {} older than {} is left", r.allocated,
                           duration(r.older_than_s));
    }
    std::string operator()(const reason::FreedWithAge& r) const {
        return fmt::format("blocks go with age: {} are left after {}, {} of the newer",
                           percent(r.older_share), duration(r.older_than_s),
                           percent(r.newer_share));
    }
    std::string operator()(const reason::FewLately& r) const {
        return fmt::format("{} left, {} of the last {}", number_of(r.left, "block"), r.left_lately,
                           duration(r.lately_s));
    }
    std::string operator()(const reason::NoneLately& r) const {
        return fmt::format("{} left, none of the last {}", number_of(r.left, "block"),
                           duration(r.lately_s));
    }
    std::string operator()(const reason::Stay& r) const {
        return fmt::format("{} of blocks stay for {}; {}{}", percent(r.share), duration(r.during_s),
                           rate(blocks_per_s),
                           r.may_fill_up ? "; it may be a cache that fills" : "");
    }
    std::string operator()(const reason::StayForGood& r) const {
        const std::string where =
            r.intervals_with_live == r.intervals
                ? "every interval"
                : fmt::format("{} of {} intervals", r.intervals_with_live, r.intervals);
        return fmt::format("{} of blocks stay in {} back to {}; {}", percent(r.share), where,
                           duration(r.since_s), rate(blocks_per_s));
    }
    std::string operator()(const reason::EverLarger& r) const {
        return fmt::format("{}, replaced by ever larger ones for {}; it may be a buffer that fills",
                           number_of(r.live.blocks, "block"), duration(r.during_s));
    }
    std::string operator()(const reason::Lost& r) const {
        const auto amount = [](const BlockCount& count) {
            return fmt::format("{} of {}", number_of(count.blocks, "block"),
                               number_of(count.bytes, "byte"));
        };
        const std::string others =
            r.indirect.blocks == 0
                ? ""
                : fmt::format("only lost blocks point to {}", amount(r.indirect));
        return r.definite.blocks == 0 ? others
                                      : fmt::format("nothing points to {}{}{}", amount(r.definite),
                                                    others.empty() ? "" : "; ", others);
    }
};

/// "2493 of 2493 held by g_sessions, server.cpp".
std::string held_text(const HeldBy& held) {
    return fmt::format("{} of {} held by {}", held.blocks, held.of, printable(held.holder));
}

} // namespace

const char* describe(Verdict verdict) {
    switch (verdict) {
    case Verdict::too_early:
        return "too early";
    case Verdict::settled:
        return "settled";
    case Verdict::plateau:
        return "plateau";
    case Verdict::growing:
        return "growing";
    case Verdict::leaking:
        return "leaking";
    case Verdict::lost:
        return "lost";
    }
    return "?";
}

std::string why(const Judgement& judgement) {
    std::string text = std::visit(ReasonText{judgement.blocks_per_s}, judgement.reason);
    if (judgement.held_by) {
        text += (text.empty() ? "" : "; ") + held_text(*judgement.held_by);
    }
    return text;
}

} // namespace memleax
