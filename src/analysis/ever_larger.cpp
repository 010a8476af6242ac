// SPDX-License-Identifier: GPL-3.0-or-later
// The rule, and the reasons for its constants, are in docs/verdicts.md.
#include "ever_larger.hpp"

#include <algorithm>
#include <cstddef>

namespace memleax {

namespace {

/// IntervalSpan in each of which blocks are larger than before: so many are hardly chance, ...
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
/// Also if it has not been replaced for so long.
constexpr std::int64_t kLeastQuiet = 8 * kNsPerSecond;

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
    static std::optional<Rise> of(IntervalSpan intervals);
};

std::optional<Rise> Rise::of(IntervalSpan intervals) {
    Rise rise;
    const std::int64_t half =
        intervals.front().begin.value() / 2 + intervals.back().end.value() / 2;
    double last = 0;
    for (const IntervalCount& i : intervals) {
        if (i.alloc.blocks == 0) {
            continue;
        }
        const double size = IntervalSum(IntervalSpan(&i, 1)).size();
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

} // namespace

std::optional<Judgement> judge_by_size(IntervalSpan intervals, MonotonicNs now,
                                       std::int64_t longest_life,
                                       std::optional<MonotonicNs> oldest_live) {
    const auto age = [now](MonotonicNs time) { return now.value() - time.value(); };
    const IntervalSum sum(intervals);
    const auto rise = Rise::of(intervals);
    if (!rise || sum.live_size() < IntervalSum(IntervalSpan(rise->newest, 1)).size()) {
        return std::nullopt;
    }
    // Else there is nothing between two blocks: each time only what was asked for has grown.
    const bool is_replaced = rise->lives_s >= rise->between_s();
    // The youngest live block is not older than this.
    const std::int64_t quiet =
        age(std::max(rise->newest->begin, oldest_live.value_or(intervals.front().begin)));
    const bool goes_on = quiet <= kLeastQuiet || quiet / kNextLives <= longest_life;
    const BlockCount freed = sum.alloc - sum.live;
    const IntervalSum first(IntervalSpan(rise->oldest, 1));
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
    const IntervalSum before(IntervalSpan(rise->half_time, 1));
    const double mid_age = seconds(age(rise->half_time->begin) / 2 + age(rise->half_time->end) / 2);
    Judgement judgement;
    judgement.verdict = Verdict::growing;
    judgement.reason =
        reason::EverLarger{.live = sum.live, .during_s = seconds(age(intervals.front().begin))};
    judgement.bytes_per_s =
        (sum.live_size() - before.size()) * static_cast<double>(sum.live.blocks) / mid_age;
    judgement.score = judgement.bytes_per_s;
    return judgement;
}

} // namespace memleax
