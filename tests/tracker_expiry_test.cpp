// SPDX-License-Identifier: GPL-3.0-or-later
// Which blocks expire when, and what is told of that.
#include "memleax/track/tracker.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tracker_support.hpp"

namespace memleax {
namespace {

TEST_F(TrackerTest, ExpiryIsTold) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 30, b, 1);
    alloc(0x30, 50, a, 2);
    expire(9);
    EXPECT_TRUE(notices().empty());
    expire(12);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[0].kind, Kind::expired);
    EXPECT_EQ(told[0].stack, a);
    EXPECT_EQ(told[0].id, 1U);
    EXPECT_EQ(told[0].size, 100U);
    EXPECT_EQ(told[0].count, 1U);
    EXPECT_EQ(told[1].id, 2U);
    EXPECT_EQ(tracker.account(a).expired, (BlockCount{2, 150}));
    free(0x30, 20);
    EXPECT_EQ(tracker.account(a).free_expired, (BlockCount{1, 50}));
    EXPECT_EQ(tracker.account(a).may_leak(), (BlockCount{1, 100}));
}

TEST_F(TrackerTest, ExpiryIsToldAtPowersOfTen) {
    for (std::uint64_t i = 1; i <= 1001; ++i) {
        alloc(i * 16, i, a, 0);
    }
    expire(10);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> told; // count, size
    for (const Notice& notice : tracker.take_notices()) {
        told.emplace_back(notice.count, notice.size);
    }
    EXPECT_EQ(told, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                        {1, 1}, {10, 10}, {100, 100}, {1000, 1000}}));
}

TEST_F(TrackerTest, ExpireKeepsToItsBudget) {
    for (std::uint64_t i = 1; i <= 5; ++i) {
        alloc(i * 16, 1, a, 0);
    }
    EXPECT_TRUE(tracker.expire(MonotonicNs(10), 3));
    EXPECT_EQ(tracker.account(a).expired.blocks, 3U);
    EXPECT_FALSE(tracker.expire(MonotonicNs(10), 3));
    EXPECT_EQ(tracker.account(a).expired.blocks, 5U);
}

TEST_F(TrackerTest, NextExpiry) {
    EXPECT_EQ(tracker.next_expiry(), std::nullopt);
    alloc(0x10, 1, a, 5);
    alloc(0x20, 1, a, 7);
    EXPECT_EQ(tracker.next_expiry(), MonotonicNs(15));
    free(0x10, 8);
    EXPECT_EQ(tracker.next_expiry(), MonotonicNs(17));
    expire(17);
    EXPECT_EQ(tracker.next_expiry(), std::nullopt);
}

TEST_F(TrackerTest, AStackThatFreesLateAgainAndAgainIsToldNoMore) {
    for (int i = 0; i < 5; ++i) {
        alloc(0x10, 1, a, i * 100);
        expire(i * 100 + 10);
        free(0x10, i * 100 + 20);
    }
    EXPECT_EQ(notices(), (std::vector{Kind::expired, Kind::expired_freed, Kind::expired_freed,
                                      Kind::expired_freed, Kind::too_many_expired_free}));
    EXPECT_EQ(tracker.account(a).free_expired.blocks, 5U);
}

TEST_F(TrackerTest, NumbersAreGivenByFirstExpiryAndThenWhenAsked) {
    const StackId c = stack(0x3000);
    alloc(0x10, 1, b, 0);
    expire(10);
    EXPECT_EQ(tracker.number(c), 2U);
    EXPECT_EQ(tracker.number(a), 3U);
    EXPECT_EQ(tracker.number(b), 1U);
    EXPECT_EQ(tracker.number(c), 2U);
}

TEST_F(TrackerTest, ABlockFreedLateHasExpiredEvenIfNobodyLooked) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 30, b, 1);
    alloc(0x30, 7, b, 2);
    free(0x20, 15);
    EXPECT_EQ(tracker.account(b).expired, (BlockCount{1, 30}));
    EXPECT_EQ(tracker.account(b).free_expired, (BlockCount{1, 30}));
    EXPECT_EQ(tracker.account(a).expired, (BlockCount{1, 100})); // it was before
    EXPECT_EQ(notices(), (std::vector{Kind::expired, Kind::expired, Kind::expired_freed}));
    expire(15);
    EXPECT_EQ(tracker.account(b).expired, (BlockCount{2, 37}));
    EXPECT_TRUE(notices().empty());
    EXPECT_EQ(tracker.number(a), 1U);
}

TEST_F(TrackerTest, ABlockFreedJustBeforeItsTimeHasNotExpired) {
    alloc(0x10, 1, a, 0);
    alloc(0x20, 1, a, 0);
    free(0x10, 9);
    EXPECT_EQ(tracker.account(a).expired.blocks, 0U);
    free(0x20, 10); // as expire() has it
    EXPECT_EQ(tracker.account(a).free_expired.blocks, 1U);
}

TEST_F(TrackerTest, AReallocThatEndsAnOldBlockLetsItExpire) {
    alloc(0x10, 1, a, 0);
    realloc_begin(1, 0x10, 20);
    realloc_end(1, 0x10, 0x20, 5, b, 21);
    EXPECT_EQ(tracker.account(a).free_expired.blocks, 1U);
    EXPECT_EQ(tracker.account(b).expired.blocks, 0U);
    expire(25);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U);
}

struct TrackerLimits : TrackerTest {
    TrackerLimits() : TrackerTest({.expire_ns = 10, .memory_block_max = 3, .call_stack_max = 2}) {}
};

TEST_F(TrackerLimits, OfBlocksAtOneStack) {
    for (std::uint64_t i = 1; i <= 3; ++i) {
        alloc(i * 16, 1, a, 0);
    }
    EXPECT_FALSE(tracker.expire(MonotonicNs(9), kAll));
    tracker.expire(MonotonicNs(10), kAll);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 2U);
    EXPECT_EQ(told[1].kind, Kind::block_limit);
    EXPECT_EQ(told[1].id, 1U);
    EXPECT_EQ(told[1].count, 3U);
}

TEST_F(TrackerLimits, OfStacks) {
    alloc(0x10, 1, a, 0);
    alloc(0x20, 1, b, 1);
    tracker.expire(MonotonicNs(10), kAll);
    EXPECT_EQ(notices(), std::vector{Kind::expired});
    tracker.expire(MonotonicNs(11), kAll);
    EXPECT_EQ(notices(), (std::vector{Kind::expired, Kind::stack_limit}));
}

struct TrackerWithoutLimits : TrackerTest {
    TrackerWithoutLimits()
        : TrackerTest({.expire_ns = 10, .memory_block_max = 0, .call_stack_max = 0}) {}
};

TEST_F(TrackerWithoutLimits, ZeroIsNever) {
    for (std::uint64_t i = 1; i <= 5000; ++i) {
        alloc(i * 16, 1, stack(0x10000 + i), 0);
        alloc(0x1000000 + i * 16, 1, a, 0);
    }
    expire(10);
    for (const Notice& notice : tracker.take_notices()) {
        ASSERT_EQ(notice.kind, Kind::expired);
    }
}

TEST_F(TrackerWithoutLimits, NoticesDoNotPileUp) {
    for (std::uint64_t i = 1; i <= 100'000; ++i) {
        alloc(i * 16, 1, a, 0);
    }
    alloc(0x10000000, 1, b, 0);
    expire(10);
    const auto told = tracker.take_notices();
    EXPECT_EQ(told.size(), 7U);
    EXPECT_EQ(told.back().stack, b); // a first expiry is told nevertheless: it shows the backtrace
    EXPECT_EQ(tracker.account(a).expired.blocks, 100'000U);
}

struct TrackerQuiet : TrackerTest {
    TrackerQuiet() : TrackerTest({.expire_ns = 10, .memory_block_max = 2, .notices = false}) {}
};

TEST_F(TrackerQuiet, OnlyLimitsAreTold) {
    alloc(0x10, 1, a, 0);
    alloc(0x20, 1, a, 0);
    expire(10);
    EXPECT_EQ(notices(), std::vector{Kind::block_limit});
}

TEST_F(TrackerTest, NothingIsSaidOfTimesThatHaveNotBeenTold) {
    alloc(0x10, 100, a, 0);
    tracker.on_watermark(MonotonicNs(9));
    expire(50);
    EXPECT_EQ(tracker.account(a).expired, BlockCount{}) << "its free may still be told";
    EXPECT_EQ(tracker.delivered_until(MonotonicNs(50)), MonotonicNs(9));
    free(0x10, 9);
    tracker.on_watermark(MonotonicNs(40));
    expire(50);
    EXPECT_EQ(tracker.account(a).expired, BlockCount{});
    alloc(0x20, 50, b, 35);
    expire(50);
    EXPECT_EQ(tracker.account(b).expired, BlockCount{}) << "at 40 it was 5 old";
    tracker.on_watermark(kAllDelivered);
    expire(50);
    EXPECT_EQ(tracker.account(b).expired, (BlockCount{1, 50}));
}

} // namespace
} // namespace memleax
