// SPDX-License-Identifier: GPL-3.0-or-later
// The rule of docs/verdicts.md, on intervals made for it: each condition on both
// sides of its bound. verdict_streams_test has programs.
#include "memleax/analysis/verdict.hpp"

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "memleax/report/verdict_text.hpp"
#include "memleax/track/tracker.hpp"

namespace memleax {

void PrintTo(const Judgement& judgement, std::ostream* out) {
    *out << describe(judgement.verdict) << ": " << why(judgement) << "; score " << judgement.score
         << ", " << judgement.blocks_per_s << " blocks/s, " << judgement.bytes_per_s << " bytes/s";
}

namespace {

using Intervals = std::vector<IntervalCount>;

constexpr std::int64_t kJust = 1; // nanosecond

constexpr std::int64_t s(std::int64_t seconds) {
    return seconds * kNsPerSecond;
}

/// Blocks of 100 bytes; times in ns.
IntervalCount interval(std::int64_t begin, std::int64_t end, std::uint64_t alloc,
                       std::uint64_t live, std::int64_t longest_life = 0) {
    return {MonotonicNs(begin),
            MonotonicNs(end),
            {alloc, alloc * 100},
            {live, live * 100},
            longest_life};
}

/// At the end of the last interval.
Judgement judge(const Intervals& intervals) {
    return judge(intervals, intervals.back().end);
}

TEST(Verdict, NothingAllocatedIsTooEarly) {
    const Judgement nothing{Verdict::too_early, 0, reason::NothingAllocated{}, 0, 0};
    EXPECT_EQ(judge({}, MonotonicNs(0)), nothing);
    EXPECT_EQ(judge({interval(0, s(100), 0, 0)}), nothing);
}

TEST(Verdict, TenSecondsFromTheFirstAllocation) {
    const Intervals shortly{interval(0, s(100), 0, 0), interval(s(100) + kJust, s(110), 5, 5)};
    EXPECT_EQ(judge(shortly),
              (Judgement{Verdict::too_early, 500, reason::SeenShortly{.seen_s = 9.999999999},
                         5 / 110.0, 500 / 110.0}));
    const Intervals long_enough{interval(0, s(100), 0, 0), interval(s(100), s(110), 5, 5)};
    EXPECT_EQ(judge(long_enough),
              (Judgement{Verdict::too_early, 500, reason::NothingOlder{.share = 1}, 5 / 110.0,
                         500 / 110.0}));
}

TEST(Verdict, AllFreedIsSettled) {
    EXPECT_EQ(judge({interval(0, s(10), 4, 0, s(2)), interval(s(10), s(20), 3, 0, s(4))}),
              (Judgement{Verdict::settled, 0, reason::AllFreed{.allocated = 7, .longest_life_s = 4},
                         0, 0}));
}

TEST(Verdict, OldIsWhatIsOlderThanEightSeconds) {
    EXPECT_EQ(judge({interval(0, s(12), 5, 0, s(2)), interval(s(12), s(20), 5, 5)}),
              (Judgement{Verdict::settled, 0, reason::OldFreed{.allocated = 5, .older_than_s = 8},
                         0, 0}));
    EXPECT_EQ(judge({interval(0, s(12) + kJust, 5, 0, s(2)), interval(s(12) + kJust, s(20), 5, 5)})
                  .reason,
              Reason(reason::FreedWithAge{
                  .older_share = 0, .older_than_s = 7.999999999, .newer_share = 1}));
}

TEST(Verdict, OldIsWhatIsOlderThanTwiceTheLongestLife) {
    EXPECT_EQ(judge({interval(0, s(10), 5, 0, s(5)), interval(s(10), s(20), 5, 5)}).reason,
              Reason(reason::OldFreed{.allocated = 5, .older_than_s = 10}));
    EXPECT_EQ(
        judge({interval(0, s(10), 5, 0, s(5)), interval(s(10), s(20), 5, 5, s(5) + kJust)}).reason,
        Reason(reason::FreedWithAge{.older_share = 0, .older_than_s = 10, .newer_share = 1}));
}

TEST(Verdict, NothingOldAndHalfAsManyLeftIsSettled) {
    EXPECT_EQ(
        judge({interval(0, s(10), 10, 2), interval(s(10), s(20), 10, 4, INT64_MAX)}),
        (Judgement{Verdict::settled, 600,
                   reason::FreedWithAge{.older_share = 0.2, .older_than_s = 10, .newer_share = 0.4},
                   0, 0}));
    EXPECT_EQ(
        judge({interval(0, s(10), 10, 3), interval(s(10), s(20), 10, 4, INT64_MAX)}),
        (Judgement{Verdict::growing, 40,
                   reason::Stay{.share = 0.35, .during_s = 20, .may_fill_up = true}, 0.4, 40}));
}

TEST(Verdict, TwoBlocksAreTooFewForAMinute) {
    EXPECT_EQ(judge({interval(kJust, s(30), 2, 2), interval(s(30), s(60), 0, 0)}).reason,
              Reason(reason::FewBlocks{.left = 2}));
    EXPECT_EQ(judge({interval(0, s(30), 2, 2), interval(s(30), s(60), 0, 0)}),
              (Judgement{Verdict::plateau, 200,
                         reason::FewLately{.left = 2, .left_lately = 0, .lately_s = 30}, 0, 0}));
    EXPECT_EQ(judge({interval(0, s(15), 2, 2), interval(s(15), s(30), 1, 1)}),
              (Judgement{Verdict::growing, 100 / 15.0,
                         reason::Stay{.share = 1, .during_s = 30, .may_fill_up = true}, 1 / 15.0,
                         100 / 15.0}));
}

TEST(Verdict, AnEighthOfTenExpectedIsAPlateau) {
    EXPECT_EQ(
        judge({interval(0, s(70), 70, 70), interval(s(70), s(80), 1, 1)}),
        (Judgement{Verdict::plateau, 7100,
                   reason::FewLately{.left = 71, .left_lately = 1, .lately_s = 10}, 0.1, 10}));
    const auto growing = [](double per_s) {
        return Judgement{Verdict::growing, per_s * 100,
                         reason::Stay{.share = 1, .during_s = 80, .may_fill_up = true}, per_s,
                         per_s * 100};
    };
    // Two of ten; one of 9.9; one in less than an eighth of the time.
    EXPECT_EQ(judge({interval(0, s(70), 70, 70), interval(s(70), s(80), 2, 2)}), growing(0.2));
    EXPECT_EQ(judge({interval(0, s(70), 69, 69), interval(s(70), s(80), 1, 1)}), growing(0.1));
    EXPECT_EQ(judge({interval(0, s(72), 144, 144), interval(s(72), s(80), 1, 1)}), growing(0.125));
}

TEST(Verdict, NothingInTheNewerHalfIsAPlateau) {
    EXPECT_EQ(
        judge({interval(0, s(40), 5, 5), interval(s(40), s(80), 0, 0)}),
        (Judgement{Verdict::plateau, 500, reason::NoneLately{.left = 5, .lately_s = 40}, 0, 0}));
}

/// Half of the blocks stay. What is changed makes the verdict another one, or does not.
struct LeakOfHalf : testing::Test {
    Intervals intervals{interval(0, s(40), 10, 5), interval(s(40), s(60), 10, 5),
                        interval(s(60), s(92), 10, 5), interval(s(92), s(100), 10, 10)};
    /// The newer half of what is old.
    static Judgement growing(std::uint64_t blocks, std::int64_t in_s, double share,
                             double during_s) {
        const auto per_s = static_cast<double>(blocks) / static_cast<double>(in_s);
        const auto bytes_per_s = static_cast<double>(blocks * 100) / static_cast<double>(in_s);
        return {Verdict::growing, bytes_per_s,
                reason::Stay{.share = share, .during_s = during_s, .may_fill_up = false}, per_s,
                bytes_per_s};
    }
};

TEST_F(LeakOfHalf, IsLeakingAfterAMinute) {
    EXPECT_EQ(
        judge(intervals),
        (Judgement{Verdict::leaking, 15.625,
                   reason::StayForGood{
                       .share = 0.5, .intervals = 3, .intervals_with_live = 3, .since_s = 100},
                   0.15625, 15.625}));
}

TEST_F(LeakOfHalf, IsGrowingBeforeTheFirstBlocksAreAMinuteOld) {
    intervals[0].end = intervals[1].begin = MonotonicNs(s(40) + kJust);
    EXPECT_EQ(judge(intervals), growing(5, 32, 0.5, 92));
}

TEST_F(LeakOfHalf, IsGrowingWithTwoBlocksInTheNewerHalf) {
    intervals[2] = interval(s(60), s(92), 10, 3);
    EXPECT_EQ(judge(intervals).verdict, Verdict::leaking);
    intervals[2] = interval(s(60), s(92), 10, 2);
    EXPECT_EQ(judge(intervals), growing(2, 32, 0.4, 92));
}

TEST_F(LeakOfHalf, IsGrowingInTwoIntervals) {
    intervals[1] = interval(s(40), s(60), 10, 0);
    EXPECT_EQ(judge(intervals), growing(5, 32, 10 / 30.0, 92));
}

// Merged intervals are of nearly one length: the newer half is not empty then.
TEST_F(LeakOfHalf, IsLeakingInTwoMergedIntervals) {
    intervals = {interval(0, s(34), 935, 474, s(16)), interval(s(34), s(69), 829, 427),
                 interval(s(69), s(120), 700, 350)};
    Judgement judgement = judge(intervals, MonotonicNs(s(120)), MonotonicNs(s(1)));
    EXPECT_EQ(judgement.verdict, Verdict::leaking) << why(judgement);
    intervals[0].end = intervals[1].begin = MonotonicNs(s(27)); // 27 s, and 42
    judgement = judge(intervals, MonotonicNs(s(120)), MonotonicNs(s(1)));
    EXPECT_EQ(judgement.reason, Reason(reason::NothingOlder{.share = 901.0 / 1764}));
}

TEST_F(LeakOfHalf, NeedNotBeInEachInterval) {
    intervals = {interval(0, s(30), 10, 0),     interval(s(30), s(40), 10, 5),
                 interval(s(40), s(50), 10, 0), interval(s(50), s(60), 10, 5),
                 interval(s(60), s(76), 10, 5), interval(s(76), s(100), 10, 10)};
    EXPECT_EQ(
        judge(intervals),
        (Judgement{Verdict::leaking, 31.25,
                   reason::StayForGood{
                       .share = 0.375, .intervals = 4, .intervals_with_live = 3, .since_s = 70},
                   0.3125, 31.25}));
}

TEST_F(LeakOfHalf, IsGrowingUntilFourTimesTheLongestLife) {
    intervals = {interval(0, s(40), 10, 5, s(15)), interval(s(40), s(55), 10, 5),
                 interval(s(55), s(65), 10, 5), interval(s(65), s(69), 10, 5),
                 interval(s(69), s(100), 10, 10)};
    EXPECT_EQ(judge(intervals).verdict, Verdict::leaking);
    intervals[0].longest_life = s(15) + kJust;
    EXPECT_EQ(judge(intervals), growing(15, 29, 0.5, 69));
}

/// More than nine in ten of the old blocks are live: it may be a cache that fills.
struct MostStay : testing::Test {
    static Intervals lately(std::uint64_t blocks) {
        return {interval(0, s(400), 100, 100), interval(s(400), s(700), 100, 100),
                interval(s(700), s(1000), blocks, blocks)};
    }
    static Judgement growing(double blocks, double during_s) {
        return {Verdict::growing, blocks * 100 / 300,
                reason::Stay{.share = 1, .during_s = during_s, .may_fill_up = true}, blocks / 300,
                blocks * 100 / 300};
    }
};

TEST_F(MostStay, IsLeakingAtHalfOfTheOlderRate) {
    // The older half has two blocks in seven seconds.
    EXPECT_EQ(judge(lately(43)),
              (Judgement{Verdict::leaking, 4300 / 300.0,
                         reason::StayForGood{
                             .share = 1, .intervals = 3, .intervals_with_live = 3, .since_s = 1000},
                         43 / 300.0, 4300 / 300.0}));
    EXPECT_EQ(judge(lately(42)), growing(42, 1000));
}

TEST_F(MostStay, IsLeakingAfterTenMinutes) {
    Intervals intervals = lately(100);
    EXPECT_EQ(judge(intervals).verdict, Verdict::leaking);
    intervals[0].end = intervals[1].begin = MonotonicNs(s(400) + kJust);
    EXPECT_EQ(judge(intervals), growing(100, 1000));
}

/// Where blocks come evenly, the oldest one counts, and not the end of its interval, which moves
/// away when intervals are merged.
TEST_F(MostStay, IsLeakingTenMinutesAfterTheOldestBlockOfAnEvenGrowth) {
    const auto with_lately = [](std::uint64_t blocks) {
        return Intervals{interval(0, s(500), 100, 100), interval(s(500), s(750), 50, 50),
                         interval(s(750), s(1000), blocks - 50, blocks - 50)};
    };
    const auto verdict = [](const Intervals& intervals, std::optional<std::int64_t> oldest) {
        return memleax::judge(intervals, intervals.back().end,
                              oldest ? std::optional(MonotonicNs(*oldest)) : std::nullopt)
            .verdict;
    };
    const Intervals even = with_lately(100);
    EXPECT_EQ(verdict(even, s(400)), Verdict::leaking);
    EXPECT_EQ(verdict(even, s(400) + kJust), Verdict::growing);
    EXPECT_EQ(verdict(even, std::nullopt), Verdict::growing);
    EXPECT_EQ(verdict(even, -kJust), Verdict::growing) << "it is in none of the intervals";
    // Twice as fast as before is even, more is not, and the oldest block may be one of few.
    EXPECT_EQ(verdict(with_lately(200), s(400)), Verdict::leaking);
    EXPECT_EQ(verdict(with_lately(201), s(400)), Verdict::growing);
}

TEST_F(MostStay, IsMoreThanNineInTen) {
    Intervals intervals = lately(100);
    intervals[0].end = intervals[1].begin = MonotonicNs(s(500));
    intervals[0].live = {81, 8100};
    intervals[1].live = {99, 9900};
    EXPECT_EQ(judge(intervals), // of the old intervals: the newer half is 200 s, nothing slackens
              (Judgement{Verdict::growing, 49.5,
                         reason::Stay{.share = 0.9, .during_s = 700, .may_fill_up = false}, 0.495,
                         49.5}));
    intervals[0].live = {82, 8200};
    EXPECT_EQ(judge(intervals).reason,
              Reason(reason::Stay{.share = 281 / 300.0, .during_s = 1000, .may_fill_up = true}));
}

/// One block at any time, each replaced by a larger one.
struct OneBlock : testing::Test {
    static IntervalCount grown(std::int64_t begin, std::int64_t end, std::uint64_t size,
                               std::uint64_t live, std::int64_t life, std::uint64_t blocks = 4) {
        return {MonotonicNs(begin),
                MonotonicNs(end),
                {blocks, blocks * size},
                {live, live * size},
                life};
    }
    /// 10 s after it was replaced last.
    [[nodiscard]] Judgement judge_now() const {
        return memleax::judge(intervals, MonotonicNs(s(100)), MonotonicNs(s(90)));
    }
    Intervals intervals{grown(0, s(20), 100, 0, s(5)), grown(s(20), s(40), 200, 0, s(5)),
                        grown(s(40), s(60), 300, 0, s(5)), grown(s(60), s(80), 400, 0, s(5)),
                        grown(s(80), s(100), 500, 1, s(5))};
};

TEST_F(OneBlock, ThatIsEverLargerGrows) {
    const double per_s = (500 - 200) / 70.0; // since the middle of the last of the older half
    EXPECT_EQ(judge_now(),
              (Judgement{Verdict::growing, per_s,
                         reason::EverLarger{.live = {1, 500}, .during_s = 100}, 0, per_s}));
}

TEST_F(OneBlock, ThatIsNotLargerEachTimeHasSettled) {
    intervals[2].alloc.bytes = 800;
    EXPECT_EQ(judge_now().verdict, Verdict::settled);
}

TEST_F(OneBlock, ThatHasShrunkHasSettled) {
    intervals[4].live.bytes = 499;
    EXPECT_EQ(judge_now().verdict, Verdict::settled);
}

TEST_F(OneBlock, GrowsForTwiceItsLongestLife) {
    const MonotonicNs last(s(90)); // when it was replaced
    const auto verdict_at = [&](std::int64_t now) {
        return memleax::judge(intervals, MonotonicNs(now), last).verdict;
    };
    EXPECT_EQ(verdict_at(s(100) + kJust), Verdict::growing);
    EXPECT_EQ(verdict_at(s(100) + 2 * kJust), Verdict::settled);
    intervals[0].longest_life = s(20);
    EXPECT_EQ(verdict_at(s(130) + kJust), Verdict::growing);
    EXPECT_NE(verdict_at(s(130) + 2 * kJust), Verdict::growing);
}

TEST_F(OneBlock, IsReplacedOnlyIfThereIsOneAtAnyTime) {
    for (IntervalCount& each : intervals) {
        each.longest_life = s(60) / 19 + kJust;
    }
    intervals[4].longest_life = s(5); // so that it is growing at all
    EXPECT_EQ(judge_now().verdict, Verdict::growing) << "19 lives in 60 s";
    for (IntervalCount& each : intervals) {
        each.longest_life = s(5) / 2;
    }
    intervals[4].longest_life = s(5);
    EXPECT_EQ(judge_now().verdict, Verdict::settled);
}

TEST_F(OneBlock, IsEverLargerInFiveIntervalsOrByAFactor) {
    intervals.erase(intervals.begin(), intervals.begin() + 1);
    EXPECT_EQ(judge_now().verdict, Verdict::settled) << "four, and not three times as large";
    intervals[0].alloc.bytes = 4 * 166;
    EXPECT_EQ(judge_now().verdict, Verdict::growing) << "three times";
    // As large as all before it, in two intervals.
    intervals = {grown(0, s(50), 100, 0, s(20), 8), grown(s(50), s(100), 320, 1, 0, 1)};
    EXPECT_EQ(judge_now().verdict, Verdict::growing);
    intervals[1].alloc.bytes = intervals[1].live.bytes = 319;
    EXPECT_NE(judge_now().verdict, Verdict::growing);
    intervals = {grown(0, s(50), 100, 0, s(20), 3), grown(s(50), s(100), 250, 1, 0, 1)};
    EXPECT_EQ(judge_now().verdict, Verdict::growing);
    intervals[1].alloc.bytes = intervals[1].live.bytes = 249;
    EXPECT_NE(judge_now().verdict, Verdict::growing) << "it is not that much larger";
    intervals = {grown(0, s(50), 100, 0, s(20), 2), grown(s(50), s(100), 400, 1, 0, 1)};
    EXPECT_NE(judge_now().verdict, Verdict::growing) << "too few were replaced";
}

TEST(Verdict, DoesNotDependOnTheExpireThreshold) {
    std::vector<std::string> said;
    for (const std::int64_t expire : {std::int64_t{1}, kNsPerSecond, 1000 * kNsPerSecond}) {
        Tracker tracker({.expire_ns = expire, .memory_block_max = 0, .call_stack_max = 0});
        const StackId stack = tracker.intern({}, StackEnd::outermost);
        for (std::int64_t i = 0; i < 200; ++i) {
            const MonotonicNs time(i * kNsPerSecond);
            tracker.expire(time, SIZE_MAX);
            for (const std::uint64_t address : {i * 2, i * 2 + 1}) {
                tracker.on_event({.kind = EventKind::alloc,
                                  .tid = Tid(1),
                                  .address = RemoteAddr(address + 1),
                                  .size = 8,
                                  .old_address = {},
                                  .stack = stack,
                                  .time = time});
            }
            tracker.on_event({.kind = EventKind::free,
                              .tid = Tid(1),
                              .address = RemoteAddr(static_cast<std::uint64_t>(i) * 2 + 1),
                              .size = 0,
                              .old_address = {},
                              .stack = stack,
                              .time = MonotonicNs(time.value() + 3)});
        }
        const MonotonicNs now(200 * kNsPerSecond);
        const Judgement judgement = judge(tracker.intervals().of(stack, now), now);
        said.push_back(std::string(describe(judgement.verdict)) + ": " + why(judgement));
    }
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
    EXPECT_EQ(said[0], "leaking: 50% of blocks stay in every interval back to 200 s; 1 blocks/s");
}

TEST(WithFinding, TheHolderIsNamedForWhatGrowsAndIsNotLost) {
    const StackFinding held{.definite = {}, .indirect = {}, .held_by = HeldBy{2493, 2500, "g"}};
    for (const Verdict verdict : {Verdict::too_early, Verdict::settled, Verdict::plateau,
                                  Verdict::growing, Verdict::leaking}) {
        const Judgement before{.verdict = verdict, .score = 7, .reason = {}};
        Judgement after = before;
        if (verdict >= Verdict::growing) {
            after.held_by = held.held_by;
        }
        EXPECT_EQ(with_finding(before, held), after) << describe(verdict);
    }
    StackFinding lost = held;
    lost.definite = {1, 40};
    lost.indirect = {2, 60};
    const Judgement judged =
        with_finding({.verdict = Verdict::growing, .score = 7, .reason = {}}, lost);
    EXPECT_EQ(judged.verdict, Verdict::lost);
    EXPECT_EQ(judged.score, 100);
    EXPECT_EQ(judged.reason, Reason(reason::Lost{{1, 40}, {2, 60}}));
    EXPECT_FALSE(judged.held_by);
}

} // namespace
} // namespace memleax
