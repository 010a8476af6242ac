// SPDX-License-Identifier: GPL-3.0-or-later
// The rule, and the reasons for its constants, are in docs/verdicts.md.
#include "memleax/analysis/verdict.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ever_larger.hpp"
#include "interval_sum.hpp"

namespace memleax {

namespace {

constexpr std::int64_t kLeastWatch = 10 * kNsPerSecond;
constexpr std::int64_t kLeastOldAge = 8 * kNsPerSecond;
/// Blocks that outlive the longest life that was seen by this factor are old.
constexpr std::int64_t kOldLives = 2;
constexpr std::uint64_t kLeastStayers = 3;
constexpr std::size_t kLeastIntervals = 3;
constexpr std::int64_t kFewIsFewAfter = 60 * kNsPerSecond;
constexpr std::int64_t kBegin = 120 * kNsPerSecond;
constexpr std::int64_t kLeakAge = 60 * kNsPerSecond;
constexpr std::int64_t kLeakLives = 4;
/// If most blocks stay, it may as well be a cache that fills.
constexpr double kMostStay = 0.9;
constexpr std::int64_t kLeakAgeIfMostStay = 600 * kNsPerSecond;
/// A cache that fills does so ever more slowly.
constexpr double kSteady = 0.5;
/// Part of the run that is long enough to show that it has come to an end, ...
constexpr double kPartToSlacken = 1.0 / 8;
/// ... blocks that would have come to stay in it, and part of those that did.
constexpr double kExpectedToSlacken = 10;
constexpr double kSlackened = 1.0 / 8;
constexpr double kFalling = 0.5;
/// How many of the youngest intervals make up the newer half, at most, of their time; one that is
/// hardly more than half of it is taken for a half, too: two are often nearly of one length.
std::size_t newer_half(IntervalSpan intervals) {
    constexpr double kNearlyHalf = 0.6;
    const double whole = IntervalSum(intervals).seconds;
    double time = 0;
    std::size_t count = 0;
    while (count < intervals.size()) {
        const IntervalCount& next = intervals[intervals.size() - 1 - count];
        time += seconds(next.end.value() - next.begin.value());
        if (time > (count == 0 ? kNearlyHalf : 0.5) * whole) {
            break;
        }
        ++count;
    }
    return count;
}

/// IntervalSpan are merged as they age: two in which blocks came evenly were more of them until
/// lately, and say no less now.
bool is_merged(IntervalSpan run) {
    return run.size() == 2 && std::all_of(run.begin(), run.end(), [](const IntervalCount& i) {
               return i.live.blocks >= kLeastStayers;
           });
}

/// One judgement under way.
class Judge {
  public:
    Judge(IntervalSpan intervals, MonotonicNs now, std::optional<MonotonicNs> oldest_live)
        : now_(now), oldest_live_(oldest_live), all_(intervals) {}
    Judgement judge();

  private:
    [[nodiscard]] std::int64_t age(MonotonicNs time) const { return now_.value() - time.value(); }
    Judgement judge_by_count(std::int64_t seen);
    Judgement judge_without_old();
    Judgement judge_run(IntervalSpan run, IntervalSpan old, bool most_stay);
    /// For how long at least a block of these has lived.
    [[nodiscard]] std::int64_t proved(IntervalSpan old, bool is_even) const;
    /// Has the run come to an end? The newest intervals that show it.
    static std::optional<IntervalSum> slackened(IntervalSpan run);
    static Judgement make(Verdict verdict, const IntervalSum* window, double score, Reason reason);

    MonotonicNs now_;
    std::optional<MonotonicNs> oldest_live_;
    IntervalSpan all_; ///< from the first that has an allocation
    std::int64_t longest_life_ = 0;
};

Judgement Judge::make(Verdict verdict, const IntervalSum* window, double score, Reason reason) {
    Judgement judgement;
    judgement.verdict = verdict;
    judgement.score = score;
    judgement.reason = reason;
    if (window != nullptr) {
        judgement.blocks_per_s = window->blocks_per_s();
        judgement.bytes_per_s = window->bytes_per_s();
    }
    return judgement;
}

Judgement Judge::judge() {
    while (!all_.empty() && all_.front().alloc.blocks == 0) {
        all_ = all_.subspan(1);
    }
    if (all_.empty()) {
        return make(Verdict::too_early, nullptr, 0, reason::NothingAllocated{});
    }
    const IntervalSum sum(all_);
    const std::int64_t seen = age(all_.front().begin);
    if (seen < kLeastWatch) {
        return make(Verdict::too_early, nullptr, static_cast<double>(sum.live.bytes),
                    reason::SeenShortly{.seen_s = seconds(seen)});
    }
    for (const IntervalCount& i : all_) {
        longest_life_ = std::max(longest_life_, i.longest_life);
    }
    if (sum.live.blocks == 0) {
        return make(Verdict::settled, nullptr, 0,
                    reason::AllFreed{.allocated = sum.alloc.blocks,
                                     .longest_life_s = seconds(longest_life_)});
    }
    Judgement judgement = judge_by_count(seen);
    if (judgement.verdict >= Verdict::growing) {
        return judgement;
    }
    return judge_by_size(all_, now_, longest_life_, oldest_live_).value_or(judgement);
}

Judgement Judge::judge_by_count(std::int64_t seen) {
    // Not a product: lives may be as long as time itself.
    const std::int64_t old_age = longest_life_ > age(all_.front().begin)
                                     ? INT64_MAX
                                     : std::max(kLeastOldAge, kOldLives * longest_life_);
    const auto young = std::find_if(all_.begin(), all_.end(),
                                    [&](const IntervalCount& i) { return age(i.end) < old_age; });
    const IntervalSpan old = all_.first(static_cast<std::size_t>(young - all_.begin()));
    if (old.empty() && longest_life_ > 0) {
        return judge_without_old();
    }
    const IntervalSum old_sum(old);
    if (!old.empty() && old_sum.live.blocks == 0) {
        return make(Verdict::settled, nullptr, 0,
                    reason::OldFreed{.allocated = old_sum.alloc.blocks,
                                     .older_than_s = seconds(age(old.back().end))});
    }
    const bool most_stay = old.empty() || old_sum.share() > kMostStay;
    IntervalSpan run = most_stay ? all_ : old;
    while (run.front().live.blocks == 0) {
        run = run.subspan(1);
    }
    Judgement judgement = judge_run(run, old, most_stay);
    // What is old may be too little, or in too few pieces, to judge by. What was to be said before
    // there was anything old still holds then: else a verdict of growing would be taken back for
    // want of evidence. Later only lives as long as the watching leave so little.
    if (judgement.verdict == Verdict::too_early && !most_stay && seen < kBegin) {
        if (Judgement before = judge_without_old(); before.verdict == Verdict::growing) {
            return before;
        }
    }
    return judgement;
}

Judgement Judge::judge_without_old() {
    const std::size_t newer_count = newer_half(all_);
    const IntervalSum newer(all_.last(newer_count));
    const IntervalSum older(all_.first(all_.size() - newer_count));
    const auto bytes = static_cast<double>(older.live.bytes + newer.live.bytes);
    if (older.share() <= kFalling * newer.share()) {
        return make(Verdict::settled, nullptr, bytes,
                    reason::FreedWithAge{.older_share = older.share(),
                                         .older_than_s =
                                             seconds(age(all_[all_.size() - newer_count - 1].end)),
                                         .newer_share = newer.share()});
    }
    IntervalSpan run = all_;
    while (run.front().live.blocks == 0) {
        run = run.subspan(1);
    }
    return judge_run(run, {}, true);
}

std::optional<IntervalSum> Judge::slackened(IntervalSpan run) {
    const IntervalSum whole(run);
    for (std::size_t count = 1; count < run.size(); ++count) {
        const IntervalSum newest(run.last(count));
        if (newest.seconds < kPartToSlacken * whole.seconds) {
            continue;
        }
        const double expected =
            IntervalSum(run.first(run.size() - count)).blocks_per_s() * newest.seconds;
        if (expected >= kExpectedToSlacken &&
            static_cast<double>(newest.live.blocks) < kSlackened * expected) {
            return newest;
        }
    }
    return std::nullopt;
}

std::int64_t Judge::proved(IntervalSpan old, bool is_even) const {
    const auto first = std::find_if(old.begin(), old.end(),
                                    [](const IntervalCount& i) { return i.live.blocks != 0; });
    if (first == old.end()) {
        return 0;
    }
    // Where blocks come evenly, the oldest one stands for many. Else it may be there by chance.
    const bool is_counted =
        oldest_live_ && *oldest_live_ >= first->begin && *oldest_live_ < first->end;
    return age(is_even && is_counted ? *oldest_live_ : first->end);
}

Judgement Judge::judge_run(IntervalSpan run, IntervalSpan old, bool most_stay) {
    const IntervalSum whole(run);
    const IntervalSum newer(run.last(newer_half(run)));
    const auto bytes = static_cast<double>(whole.live.bytes);
    if (whole.live.blocks < kLeastStayers && age(all_.front().begin) < kFewIsFewAfter) {
        return make(Verdict::too_early, nullptr, bytes,
                    reason::FewBlocks{.left = whole.live.blocks});
    }
    const auto slack = slackened(run);
    if (slack || whole.live.blocks < kLeastStayers) {
        const IntervalSum& window = slack ? *slack : newer;
        return make(Verdict::plateau, &window, bytes,
                    reason::FewLately{.left = whole.live.blocks,
                                      .left_lately = window.live.blocks,
                                      .lately_s = window.seconds});
    }
    if (newer.seconds == 0) {
        return make(Verdict::too_early, nullptr, bytes,
                    reason::NothingOlder{.share = whole.share()});
    }
    if (newer.live.blocks == 0) {
        return make(Verdict::plateau, &newer, bytes,
                    reason::NoneLately{.left = whole.live.blocks, .lately_s = newer.seconds});
    }
    const IntervalSum older(run.first(run.size() - newer_half(run)));
    const std::int64_t wanted = most_stay ? kLeakAgeIfMostStay : kLeakAge;
    const bool goes_on = newer.blocks_per_s() >= kSteady * older.blocks_per_s();
    const bool is_even = goes_on && older.blocks_per_s() >= kSteady * newer.blocks_per_s();
    const std::int64_t lived = proved(old, is_even);
    if (lived >= wanted && lived / kLeakLives >= longest_life_ &&
        newer.live.blocks >= kLeastStayers &&
        (whole.with_live >= kLeastIntervals || (is_even && is_merged(run))) &&
        (goes_on || !most_stay)) {
        return make(Verdict::leaking, &newer, newer.bytes_per_s(),
                    reason::StayForGood{.share = whole.share(),
                                        .intervals = run.size(),
                                        .intervals_with_live = whole.with_live,
                                        .since_s = seconds(age(run.front().begin))});
    }
    return make(
        Verdict::growing, &newer, newer.bytes_per_s(),
        reason::Stay{.share = whole.share(), .during_s = whole.seconds, .may_fill_up = most_stay});
}

} // namespace

Judgement judge(std::span<const IntervalCount> intervals, MonotonicNs now,
                std::optional<MonotonicNs> oldest_live) {
    Judgement judgement = Judge(intervals, now, oldest_live).judge();
    const double span_s =
        intervals.empty() ? 0 : seconds(now.value() - intervals.front().begin.value());
    if (judgement.verdict == Verdict::too_early && span_s > 0) {
        // Better than none: what is there until now.
        BlockCount live;
        for (const IntervalCount& interval : intervals) {
            live = live + interval.live;
        }
        judgement.blocks_per_s = static_cast<double>(live.blocks) / span_s;
        judgement.bytes_per_s = static_cast<double>(live.bytes) / span_s;
    }
    return judgement;
}

Judgement with_finding(Judgement judgement, const StackFinding& finding) {
    if (const BlockCount lost = finding.definite + finding.indirect; lost.blocks > 0) {
        judgement.verdict = Verdict::lost;
        judgement.reason = reason::Lost{finding.definite, finding.indirect};
        judgement.score = static_cast<double>(lost.bytes);
    } else if (judgement.verdict >= Verdict::growing) {
        judgement.held_by = finding.held_by;
    }
    return judgement;
}

} // namespace memleax
