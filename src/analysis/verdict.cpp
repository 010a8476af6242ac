// SPDX-License-Identifier: GPL-3.0-or-later
// The rule, and the reasons for its constants, are in docs/verdicts.md.
#include "memleax/analysis/verdict.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

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
/// Intervals in each of which blocks are larger than before: so many are hardly chance, ...
constexpr std::size_t kLeastRises = 5;
/// ... and fewer are enough where many blocks were replaced, the last one being as large as
/// several of the first, ...
constexpr std::size_t kLeastRisesIfSteep = 3;
constexpr std::uint64_t kReplacedIfSteep = 8;
constexpr double kSteep = 3;
/// ... or as several that were replaced, and nearly as all of them together: a buffer that grows by
/// a factor makes few blocks. With 2 it is as large, with 1.5 half as large.
constexpr std::uint64_t kLeastReplaced = 3;
constexpr double kLargerByFactor = 2.5;
constexpr double kAsLargeAsAllBefore = 0.4;
/// Twice the size takes it twice the time.
constexpr std::int64_t kNextLives = 2;

using Intervals = std::span<const IntervalCount>;

/// What happened in some intervals.
struct Sum {
    BlockCount alloc;
    BlockCount live;
    double seconds = 0;
    std::size_t with_live = 0;

    explicit Sum(Intervals intervals) {
        for (const IntervalCount& i : intervals) {
            alloc.blocks += i.alloc.blocks;
            alloc.bytes += i.alloc.bytes;
            live.blocks += i.live.blocks;
            live.bytes += i.live.bytes;
            seconds += memleax::seconds(i.end.value() - i.begin.value());
            with_live += i.live.blocks != 0 ? 1 : 0;
        }
    }
    [[nodiscard]] double share() const {
        return alloc.blocks == 0
                   ? 0
                   : static_cast<double>(live.blocks) / static_cast<double>(alloc.blocks);
    }
    /// Bytes of a block, on average.
    [[nodiscard]] double size() const { return mean(alloc); }
    [[nodiscard]] double live_size() const { return mean(live); }
    [[nodiscard]] double blocks_per_s() const { return per_second(live.blocks); }
    [[nodiscard]] double bytes_per_s() const { return per_second(live.bytes); }

  private:
    static double mean(const BlockCount& count) {
        return count.blocks == 0
                   ? 0
                   : static_cast<double>(count.bytes) / static_cast<double>(count.blocks);
    }
    [[nodiscard]] double per_second(std::uint64_t n) const {
        return seconds <= 0 ? 0 : static_cast<double>(n) / seconds;
    }
};

/// How many of the youngest intervals make up the newer half, at most, of their time; one that is
/// hardly more than half of it is taken for a half, too: two are often nearly of one length.
std::size_t newer_half(Intervals intervals) {
    constexpr double kNearlyHalf = 0.6;
    const double whole = Sum(intervals).seconds;
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

/// Intervals are merged as they age: two in which blocks came evenly were more of them until
/// lately, and say no less now.
bool is_merged(Intervals run) {
    return run.size() == 2 && std::all_of(run.begin(), run.end(), [](const IntervalCount& i) {
               return i.live.blocks >= kLeastStayers;
           });
}

/// Of intervals with allocations, in each of which blocks are larger, on average, than in the one
/// before.
struct Rise {
    std::size_t intervals = 0;
    const IntervalCount* oldest = nullptr;
    const IntervalCount* half_time = nullptr; ///< the newest that ended before the newer half
    const IntervalCount* newest = nullptr;
    double lives_s = 0; ///< of the freed blocks together, at most

    [[nodiscard]] double between_s() const {
        return seconds(newest->begin.value() - oldest->end.value());
    }
    static std::optional<Rise> of(Intervals intervals);
};

std::optional<Rise> Rise::of(Intervals intervals) {
    Rise rise;
    const std::int64_t half =
        intervals.front().begin.value() / 2 + intervals.back().end.value() / 2;
    double last = 0;
    for (const IntervalCount& i : intervals) {
        if (i.alloc.blocks == 0) {
            continue;
        }
        const double size = Sum(Intervals(&i, 1)).size();
        if (rise.intervals > 0 && size <= last) {
            return std::nullopt;
        }
        last = size;
        rise.oldest = rise.intervals++ == 0 ? &i : rise.oldest;
        rise.half_time = rise.half_time == nullptr || i.end.value() <= half ? &i : rise.half_time;
        rise.newest = &i;
        rise.lives_s +=
            static_cast<double>(i.alloc.blocks - i.live.blocks) * seconds(i.longest_life);
    }
    return rise;
}

/// One judgement under way.
class Judge {
  public:
    Judge(Intervals intervals, MonotonicNs now, std::optional<MonotonicNs> oldest_live)
        : now_(now), oldest_live_(oldest_live), all_(intervals) {}
    Judgement judge();

  private:
    [[nodiscard]] std::int64_t age(MonotonicNs time) const { return now_.value() - time.value(); }
    Judgement judge_by_count(std::int64_t seen);
    Judgement judge_without_old();
    /// Of blocks that are no more than before: is each one replaced by a larger one?
    std::optional<Judgement> judge_by_size(const Sum& sum);
    Judgement judge_run(Intervals run, Intervals old, bool most_stay);
    /// For how long at least a block of these has lived.
    [[nodiscard]] std::int64_t proved(Intervals old, bool is_even) const;
    /// Has the run come to an end? The newest intervals that show it.
    static std::optional<Sum> slackened(Intervals run);
    static Judgement make(Verdict verdict, const Sum* window, double score, Reason reason);

    MonotonicNs now_;
    std::optional<MonotonicNs> oldest_live_;
    Intervals all_; ///< from the first that has an allocation
    std::int64_t longest_life_ = 0;
};

Judgement Judge::make(Verdict verdict, const Sum* window, double score, Reason reason) {
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
    const Sum sum(all_);
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
    const Judgement judgement = judge_by_count(seen);
    return judgement.verdict >= Verdict::growing ? judgement
                                                 : judge_by_size(sum).value_or(judgement);
}

Judgement Judge::judge_by_count(std::int64_t seen) {
    // Not a product: lives may be as long as time itself.
    const std::int64_t old_age = longest_life_ > age(all_.front().begin)
                                     ? INT64_MAX
                                     : std::max(kLeastOldAge, kOldLives * longest_life_);
    const auto young = std::find_if(all_.begin(), all_.end(),
                                    [&](const IntervalCount& i) { return age(i.end) < old_age; });
    const Intervals old = all_.first(static_cast<std::size_t>(young - all_.begin()));
    if (old.empty() && longest_life_ > 0) {
        return judge_without_old();
    }
    const Sum old_sum(old);
    if (!old.empty() && old_sum.live.blocks == 0) {
        return make(Verdict::settled, nullptr, 0,
                    reason::OldFreed{.allocated = old_sum.alloc.blocks,
                                     .older_than_s = seconds(age(old.back().end))});
    }
    const bool most_stay = old.empty() || old_sum.share() > kMostStay;
    Intervals run = most_stay ? all_ : old;
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
    const Sum newer(all_.last(newer_count));
    const Sum older(all_.first(all_.size() - newer_count));
    const auto bytes = static_cast<double>(older.live.bytes + newer.live.bytes);
    if (older.share() <= kFalling * newer.share()) {
        return make(Verdict::settled, nullptr, bytes,
                    reason::FreedWithAge{.older_share = older.share(),
                                         .older_than_s =
                                             seconds(age(all_[all_.size() - newer_count - 1].end)),
                                         .newer_share = newer.share()});
    }
    Intervals run = all_;
    while (run.front().live.blocks == 0) {
        run = run.subspan(1);
    }
    return judge_run(run, {}, true);
}

std::optional<Judgement> Judge::judge_by_size(const Sum& sum) {
    const auto rise = Rise::of(all_);
    if (!rise || sum.live_size() < Sum(Intervals(rise->newest, 1)).size()) {
        return std::nullopt;
    }
    // Else there is nothing between two blocks: each time only what was asked for has grown.
    const bool is_replaced = rise->lives_s >= rise->between_s();
    // The youngest live block is not older than this.
    const std::int64_t quiet =
        age(std::max(rise->newest->begin, oldest_live_.value_or(all_.front().begin)));
    const bool goes_on = quiet <= kLeastOldAge || quiet / kNextLives <= longest_life_;
    const BlockCount freed = sum.alloc - sum.live;
    const Sum first(Intervals(rise->oldest, 1));
    const bool is_steep = rise->intervals >= kLeastRisesIfSteep &&
                          freed.blocks >= kReplacedIfSteep * sum.live.blocks &&
                          sum.live_size() >= kSteep * first.size();
    const double freed_bytes = static_cast<double>(freed.bytes);
    const bool is_by_factor =
        freed.blocks >= kLeastReplaced * sum.live.blocks &&
        static_cast<double>(sum.live.bytes) >= kAsLargeAsAllBefore * freed_bytes &&
        sum.live_size() * static_cast<double>(freed.blocks) >= kLargerByFactor * freed_bytes;
    const bool is_rise = rise->intervals >= kLeastRises || is_steep || is_by_factor;
    if (!is_replaced || !goes_on || !is_rise) {
        return std::nullopt;
    }
    const Sum before(Intervals(rise->half_time, 1));
    const double mid_age = seconds(age(rise->half_time->begin) / 2 + age(rise->half_time->end) / 2);
    Judgement judgement;
    judgement.verdict = Verdict::growing;
    judgement.reason =
        reason::EverLarger{.live = sum.live, .during_s = seconds(age(all_.front().begin))};
    judgement.bytes_per_s =
        (sum.live_size() - before.size()) * static_cast<double>(sum.live.blocks) / mid_age;
    judgement.score = judgement.bytes_per_s;
    return judgement;
}

std::optional<Sum> Judge::slackened(Intervals run) {
    const Sum whole(run);
    for (std::size_t count = 1; count < run.size(); ++count) {
        const Sum newest(run.last(count));
        if (newest.seconds < kPartToSlacken * whole.seconds) {
            continue;
        }
        const double expected = Sum(run.first(run.size() - count)).blocks_per_s() * newest.seconds;
        if (expected >= kExpectedToSlacken &&
            static_cast<double>(newest.live.blocks) < kSlackened * expected) {
            return newest;
        }
    }
    return std::nullopt;
}

std::int64_t Judge::proved(Intervals old, bool is_even) const {
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

Judgement Judge::judge_run(Intervals run, Intervals old, bool most_stay) {
    const Sum whole(run);
    const Sum newer(run.last(newer_half(run)));
    const auto bytes = static_cast<double>(whole.live.bytes);
    if (whole.live.blocks < kLeastStayers && age(all_.front().begin) < kFewIsFewAfter) {
        return make(Verdict::too_early, nullptr, bytes,
                    reason::FewBlocks{.left = whole.live.blocks});
    }
    const auto slack = slackened(run);
    if (slack || whole.live.blocks < kLeastStayers) {
        const Sum& window = slack ? *slack : newer;
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
    const Sum older(run.first(run.size() - newer_half(run)));
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
