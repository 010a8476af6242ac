// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/intervals.hpp"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr StackId kA{0};
constexpr StackId kB{1};

MonotonicNs at(std::int64_t ns) {
    return MonotonicNs(ns);
}

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Pairs bounds(const Intervals& intervals, std::int64_t now) {
    Pairs all;
    for (const IntervalBounds& bound : intervals.bounds(at(now))) {
        all.emplace_back(bound.begin.value(), bound.end.value());
    }
    return all;
}

/// Live blocks, and all that were allocated, by interval.
Pairs blocks(const Intervals& intervals, StackId stack, std::int64_t now = 1'000'000) {
    Pairs all;
    for (const IntervalCount& count : intervals.of(stack, at(now))) {
        all.emplace_back(count.live.blocks, count.alloc.blocks);
    }
    return all;
}

TEST(Intervals, AreMergedAsTheyAge) {
    Intervals intervals(10);
    intervals.start(at(0));
    auto tick_to = [&, now = std::int64_t{0}](std::int64_t end) mutable {
        for (; now <= end; ++now) {
            intervals.tick(at(now));
        }
    };
    tick_to(25);
    EXPECT_EQ(bounds(intervals, 25), (Pairs{{0, 10}, {10, 20}, {20, 25}}));
    tick_to(39);
    EXPECT_EQ(bounds(intervals, 39), (Pairs{{0, 20}, {20, 30}, {30, 39}}));
    tick_to(100);
    EXPECT_EQ(bounds(intervals, 105),
              (Pairs{{0, 40}, {40, 60}, {60, 80}, {80, 90}, {90, 100}, {100, 105}}));
}

TEST(Intervals, TenDaysAreFew) {
    Intervals intervals;
    const std::int64_t day = 86'400 * kNsPerSecond;
    std::size_t most = 0;
    for (std::int64_t now = 0; now <= 10 * day; now += kNsPerSecond) {
        intervals.tick(at(now));
        intervals.count_allocation(kA, at(now), 8);
        most = std::max(most, intervals.bounds(at(now)).size());
    }
    EXPECT_LE(most, 41U);
    const auto counts = intervals.of(kA, at(10 * day));
    for (std::size_t i = 0; i + 2 < counts.size(); ++i) {
        const auto length = counts[i].end.value() - counts[i].begin.value();
        const auto next = counts[i + 1].end.value() - counts[i + 1].begin.value();
        EXPECT_TRUE(length == next || length == 2 * next) << length << " " << next;
        EXPECT_EQ(counts[i].alloc.blocks, static_cast<std::uint64_t>(length / kNsPerSecond));
        EXPECT_EQ(counts[i].end, counts[i + 1].begin);
    }
}

TEST(Intervals, CountByBirth) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(1), 100);
    intervals.count_allocation(kA, at(2), 30);
    intervals.count_allocation(kB, at(3), 5);
    intervals.tick(at(10));
    intervals.count_allocation(kA, at(12), 7);
    intervals.count_free(kA, at(1), 12, 100);
    const auto counts = intervals.of(kA, at(15));
    ASSERT_EQ(counts.size(), 2U);
    EXPECT_EQ(counts[0].begin, at(0));
    EXPECT_EQ(counts[0].end, at(10));
    EXPECT_EQ(counts[0].alloc, (BlockCount{2, 130}));
    EXPECT_EQ(counts[0].live, (BlockCount{1, 30}));
    EXPECT_EQ(counts[0].longest_life, 16); // 12, rounded up
    EXPECT_EQ(counts[1].end, at(15));
    EXPECT_EQ(counts[1].live, (BlockCount{1, 7}));
    EXPECT_EQ(counts[1].longest_life, 0);
    EXPECT_EQ(blocks(intervals, kB), (Pairs{{1, 1}, {0, 0}}));
    EXPECT_EQ(blocks(intervals, StackId(9)), (Pairs{{0, 0}, {0, 0}}));
}

TEST(Intervals, BeginByThemselves) {
    Intervals intervals(10);
    EXPECT_FALSE(intervals.recording());
    intervals.count_allocation(kA, at(7), 1);
    EXPECT_TRUE(intervals.recording());
    intervals.tick(at(17));
    EXPECT_EQ(bounds(intervals, 20), (Pairs{{7, 17}, {17, 20}}));
}

TEST(Intervals, UnlessStopped) {
    Intervals intervals(10);
    intervals.stop(at(1));
    intervals.tick(at(2));
    intervals.count_allocation(kA, at(7), 1);
    intervals.count_free(kA, at(7), 1, 1);
    EXPECT_TRUE(intervals.bounds(at(9)).empty());
    intervals.restart(at(10));
    intervals.count_allocation(kA, at(11), 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{1, 1}}));
}

TEST(Intervals, StartErasesWhatWas) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(1), 1);
    intervals.tick(at(10));
    intervals.count_allocation(kA, at(11), 1);
    intervals.start(at(12));
    EXPECT_EQ(bounds(intervals, 13), (Pairs{{12, 13}}));
    intervals.count_allocation(kA, at(13), 1);
    intervals.count_free(kA, at(1), 20, 1);
    intervals.count_free(kA, at(11), 20, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{1, 1}}));
}

TEST(Intervals, StoppedBlocksAreInNone) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(1), 1);
    intervals.stop(at(5));
    EXPECT_FALSE(intervals.recording());
    intervals.count_allocation(kA, at(6), 1);
    intervals.tick(at(50));
    EXPECT_EQ(bounds(intervals, 50), (Pairs{{0, 5}}));
    intervals.restart(at(60));
    intervals.count_allocation(kA, at(61), 1);
    EXPECT_EQ(bounds(intervals, 62), (Pairs{{0, 5}, {60, 62}}));
    intervals.count_free(kA, at(6), 1, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{1, 1}, {1, 1}}));
    // When the two are merged, those of the gap are in none still.
    intervals.count_allocation(kA, at(62), 1);
    intervals.restart(at(63));
    intervals.restart(at(64));
    intervals.restart(at(65));
    EXPECT_EQ(bounds(intervals, 66).front(), std::pair(std::int64_t{0}, std::int64_t{63}));
    EXPECT_EQ(blocks(intervals, kA).front(), std::pair(std::int64_t{3}, std::int64_t{3}));
    intervals.count_free(kA, at(61), 1, 1);
    intervals.count_free(kA, at(1), 1, 1);
    EXPECT_EQ(blocks(intervals, kA).front(), std::pair(std::int64_t{1}, std::int64_t{3}));
}

TEST(Intervals, RestartKeepsTheEarlierOnes) {
    Intervals intervals(1000);
    intervals.start(at(0));
    intervals.restart(at(3));
    intervals.restart(at(3)); // nothing in between
    intervals.restart(at(7));
    EXPECT_EQ(bounds(intervals, 8), (Pairs{{0, 3}, {3, 7}, {7, 8}}));
}

TEST(Intervals, TheOldestCanBeDropped) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(1), 1);
    EXPECT_FALSE(intervals.drop_oldest()); // it is being recorded
    intervals.tick(at(10));
    intervals.count_allocation(kA, at(11), 1);
    EXPECT_TRUE(intervals.drop_oldest());
    intervals.count_free(kA, at(1), 5, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{1, 1}}));
    intervals.stop(at(12));
    EXPECT_TRUE(intervals.drop_oldest());
    EXPECT_FALSE(intervals.drop_oldest());
    intervals.count_free(kA, at(11), 5, 1);
    EXPECT_TRUE(blocks(intervals, kA).empty());
}

TEST(Intervals, ABoundaryIsLaterThanTheBirthsThatWereTold) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(100), 1);
    intervals.restart(at(50)); // the main thread looked at the clock before
    EXPECT_EQ(bounds(intervals, 102), (Pairs{{0, 101}, {101, 102}}));
    intervals.count_free(kA, at(100), 1, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{0, 1}, {0, 0}}));
}

TEST(Intervals, BirthsMayBeToldLate) {
    Intervals intervals(10);
    intervals.start(at(0));
    intervals.count_allocation(kA, at(25), 1);
    intervals.tick(at(30));
    intervals.count_allocation(kA, at(35), 1);
    intervals.count_allocation(kA, at(5), 1); // of the first interval, where others are already
    intervals.count_allocation(kB, at(31), 1);
    intervals.count_allocation(kB, at(7),
                               1); // of the first one too, where there is none of this stack
    intervals.count_allocation(kA, at(-1), 1); // of before the first
    intervals.count_free(kA, at(-1), 1, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{2, 2}, {1, 1}}));
    EXPECT_EQ(blocks(intervals, kB), (Pairs{{1, 1}, {1, 1}}));
    intervals.count_free(kB, at(7), 100, 1);
    intervals.count_free(kA, at(5), 100, 1);
    EXPECT_EQ(blocks(intervals, kA), (Pairs{{1, 2}, {1, 1}}));
    EXPECT_EQ(blocks(intervals, kB), (Pairs{{0, 1}, {1, 1}}));
}

/// A block of the model, in which intervals are only looked up.
struct Birth {
    std::int64_t time;
    std::uint64_t size;
    std::uint32_t stack;
    std::int64_t life; ///< -1: live
    bool counted;
};

class RandomSession {
  public:
    explicit RandomSession(unsigned seed) : random_(seed) { intervals_.start(at(0)); }
    void step();
    void compare() const;

  private:
    static constexpr std::uint32_t kStacks = 4;
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    void begin();
    void end();

    std::mt19937 random_;
    Intervals intervals_{100};
    std::vector<Birth> births_;
    std::vector<std::size_t> live_;
    std::int64_t now_ = 1;
    bool recording_ = true;
    std::int64_t stopped_ = 0; ///< the last command that set a limit to what is counted
};

void RandomSession::begin() {
    // Most are told in order.
    const std::int64_t late = below(20) == 0 ? static_cast<std::int64_t>(below(300)) : 0;
    const std::int64_t birth = std::max<std::int64_t>(now_ - late, 0);
    // Late ones keep away from what stop() and start() have left; that has its own tests.
    if (birth < now_ && (!recording_ || birth < stopped_)) {
        return;
    }
    const Birth block{birth, 1 + below(100), static_cast<std::uint32_t>(below(kStacks)), -1,
                      recording_};
    intervals_.count_allocation(StackId(block.stack), at(block.time), block.size);
    live_.push_back(births_.size());
    births_.push_back(block);
}

void RandomSession::end() {
    if (live_.empty()) {
        return;
    }
    const std::size_t place = below(live_.size());
    Birth& block = births_[live_[place]];
    block.life = std::max<std::int64_t>(now_ - block.time, 0);
    intervals_.count_free(StackId(block.stack), at(block.time), block.life, block.size);
    live_[place] = live_.back();
    live_.pop_back();
}

void RandomSession::step() {
    now_ += static_cast<std::int64_t>(1 + below(10));
    const std::uint64_t choice = below(1000);
    if (choice < 500) {
        begin();
    } else if (choice < 960) {
        end();
    } else if (choice < 990) {
        intervals_.tick(at(now_));
    } else if (choice < 994) {
        now_ += 2;
        intervals_.restart(at(now_));
        stopped_ = recording_ ? stopped_ : now_;
        recording_ = true;
    } else if (choice < 997) {
        now_ += 2;
        intervals_.stop(at(now_));
        recording_ = false;
        stopped_ = now_;
    } else if (choice < 999) {
        intervals_.drop_oldest();
    } else if (below(10) == 0) {
        now_ += 2;
        intervals_.start(at(now_));
        recording_ = true;
        stopped_ = now_;
    }
}

void RandomSession::compare() const {
    const auto bounds = intervals_.bounds(at(now_ + 1));
    ASSERT_EQ(intervals_.recording(), recording_);
    for (std::uint32_t stack = 0; stack < kStacks; ++stack) {
        std::vector<IntervalCount> wanted;
        for (const IntervalBounds& bound : bounds) {
            wanted.push_back({bound.begin, bound.end, {}, {}, 0});
        }
        for (const Birth& block : births_) {
            const auto interval =
                std::find_if(wanted.begin(), wanted.end(), [&](const IntervalCount& count) {
                    return block.time >= count.begin.value() && block.time < count.end.value();
                });
            if (block.stack != stack || !block.counted || interval == wanted.end()) {
                continue;
            }
            interval->alloc.add(block.size);
            if (block.life < 0) {
                interval->live.add(block.size);
            } else {
                interval->longest_life = std::max(interval->longest_life, block.life);
            }
        }
        const auto got = intervals_.of(StackId(stack), at(now_ + 1));
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(got[i].begin, wanted[i].begin);
            ASSERT_EQ(got[i].end, wanted[i].end);
            ASSERT_EQ(got[i].alloc, wanted[i].alloc);
            ASSERT_EQ(got[i].live, wanted[i].live);
            ASSERT_GE(got[i].longest_life, wanted[i].longest_life);
            ASSERT_LE(got[i].longest_life, 2 * std::max<std::int64_t>(wanted[i].longest_life, 1));
        }
    }
}

TEST(IntervalsRandom, AgreeWithTheModel) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        RandomSession session(seed);
        for (int i = 1; i <= 10'000; ++i) {
            session.step();
            if (i % 50 == 0) {
                session.compare();
            }
            if (testing::Test::HasFatalFailure()) {
                FAIL() << "at step " << i;
            }
        }
    }
}

} // namespace
} // namespace memleax
