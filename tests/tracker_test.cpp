// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/tracker.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "memleax/base/clock.hpp"

namespace memleax {
namespace {

constexpr std::size_t kAll = 1'000'000;
using Kind = Notice::Kind;

/// A tracker with an expire threshold of 10 ns and two call stacks.
struct TrackerTest : testing::Test {
    explicit TrackerTest(Tracker::Options options = {.expire_ns = 10}) : tracker(options) {}

    StackId stack(std::uint64_t pc) {
        return tracker.intern(std::vector{FrameAddress::exact(CodeAddr(pc))}, StackEnd::outermost);
    }
    void send(EventKind kind, int tid, std::uint64_t address, std::uint64_t old, std::uint64_t size,
              StackId at, std::int64_t time) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(tid),
                          .address = RemoteAddr(address),
                          .size = size,
                          .old_address = RemoteAddr(old),
                          .stack = at,
                          .time = MonotonicNs(time)});
    }
    void alloc(std::uint64_t address, std::uint64_t size, StackId at, std::int64_t time,
               int tid = 1) {
        send(EventKind::alloc, tid, address, 0, size, at, time);
    }
    void free(std::uint64_t address, std::int64_t time, StackId at = kNoStack) {
        send(EventKind::free, 1, address, 0, 0, at, time);
    }
    void realloc_begin(int tid, std::uint64_t old, std::int64_t time) {
        send(EventKind::realloc_begin, tid, 0, old, 0, kNoStack, time);
    }
    void realloc_end(int tid, std::uint64_t old, std::uint64_t address, std::uint64_t size,
                     StackId at, std::int64_t time) {
        send(EventKind::realloc_end, tid, address, old, size, at, time);
    }
    void expire(std::int64_t now) { EXPECT_FALSE(tracker.expire(MonotonicNs(now), kAll)); }
    std::vector<Kind> notices() {
        std::vector<Kind> kinds;
        for (const Notice& notice : tracker.take_notices()) {
            kinds.push_back(notice.kind);
        }
        return kinds;
    }

    Tracker tracker;
    StackId a = stack(0x1000);
    StackId b = stack(0x2000);
};

TEST_F(TrackerTest, AccountsOfAStack) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 50, a, 1);
    alloc(0x30, 7, b, 2);
    free(0x20, 4);
    const CallStackAccount& account = tracker.account(a);
    EXPECT_EQ(account.alloc, (BlockCount{2, 150}));
    EXPECT_EQ(account.free, (BlockCount{1, 50}));
    EXPECT_EQ(account.live(), (BlockCount{1, 100}));
    EXPECT_EQ(account.lifetime_min, 3);
    EXPECT_EQ(account.lifetime_max, 3);
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 7}));
    EXPECT_EQ(tracker.events().alloc, 3U);
    EXPECT_EQ(tracker.events().free, 1U);
}

TEST_F(TrackerTest, Lifetimes) {
    for (const std::int64_t lifetime : {5, 2, 9}) {
        alloc(0x10, 1, a, 100);
        free(0x10, 100 + lifetime);
    }
    EXPECT_EQ(tracker.account(a).lifetime_min, 2);
    EXPECT_EQ(tracker.account(a).lifetime_max, 9);
    EXPECT_EQ(tracker.account(a).lifetime_sum, 16);
}

TEST_F(TrackerTest, FailedAllocationsBeginNothing) {
    send(EventKind::failed_alloc, 1, 0, 0, 1ULL << 62, a, 1);
    EXPECT_EQ(tracker.events().failed_alloc, 1U);
    EXPECT_EQ(tracker.events().alloc, 0U);
    EXPECT_EQ(tracker.account(a).alloc, BlockCount{});
    EXPECT_EQ(tracker.blocks().size(), 0U);
}

TEST_F(TrackerTest, ExpiryIsTold) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 30, b, 1);
    alloc(0x30, 50, a, 2);
    expire(9);
    EXPECT_TRUE(notices().empty());
    expire(12);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 3U);
    EXPECT_EQ(told[0].kind, Kind::expired);
    EXPECT_EQ(told[0].stack, a);
    EXPECT_EQ(told[0].id, 1U);
    EXPECT_EQ(told[0].size, 100U);
    EXPECT_EQ(told[0].count, 1U);
    EXPECT_EQ(told[1].id, 2U);
    EXPECT_EQ(told[2].id, 1U);
    EXPECT_EQ(told[2].size, 50U);
    EXPECT_EQ(told[2].count, 2U);
    EXPECT_EQ(tracker.account(a).expired, (BlockCount{2, 150}));
    free(0x30, 20);
    EXPECT_EQ(tracker.account(a).free_expired, (BlockCount{1, 50}));
    EXPECT_EQ(tracker.account(a).may_leak(), (BlockCount{1, 100}));
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
    EXPECT_EQ(notices(),
              (std::vector{Kind::expired, Kind::expired_freed, //
                           Kind::expired, Kind::expired_freed, //
                           Kind::expired, Kind::expired_freed, Kind::too_many_expired_free}));
    EXPECT_EQ(tracker.account(a).free_expired.blocks, 5U);
}

TEST_F(TrackerTest, FreeOfAnUnknownBlock) {
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 1);
    free(0x10, 2); // it may have been allocated where we do not look
    EXPECT_EQ(tracker.events().unknown_free, 2U);
    EXPECT_EQ(tracker.events().free, 0U);
    EXPECT_TRUE(notices().empty());
}

TEST_F(TrackerTest, DoubleFreeComesWithBothStacks) {
    alloc(0x10, 1, a, 1);
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 2);
    EXPECT_TRUE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 3, b);
    EXPECT_EQ(tracker.events().free, 1U);
    EXPECT_EQ(tracker.events().double_free, 1U);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].kind, Kind::memory_error);
    EXPECT_EQ(told[0].error.kind, MemoryError::Kind::double_free);
    EXPECT_EQ(told[0].error.address, RemoteAddr(0x10));
    EXPECT_EQ(told[0].error.alloc_stack, a);
    EXPECT_EQ(told[0].error.free_stack, b);
    EXPECT_EQ(told[0].error.freed_before, kNoStack);
    EXPECT_EQ(tracker.account(a).free.blocks, 1U);
}

TEST_F(TrackerTest, AnAllocationThatIsNotFollowedMayHaveAnyAddressThatIsFree) {
    alloc(0x10, 1, a, 1);
    free(0x10, 2);
    send(EventKind::unseen_alloc, 1, 0, 0, 0, kNoStack, 3);
    free(0x10, 4, b);
    alloc(0x20, 1, a, 5);
    free(0x20, 6);
    free(0x20, 7, b);
    EXPECT_EQ(tracker.events().double_free, 0U);
    EXPECT_EQ(tracker.events().unknown_free, 2U);
}

TEST_F(TrackerTest, AnAllocationThatIsNotFollowedIsCountedByItsStack) {
    send(EventKind::unseen_alloc, 1, 0, 0, 100, a, 1);
    send(EventKind::unseen_alloc, 1, 0, 0, 50, a, 2);
    send(EventKind::unseen_alloc, 1, 0, 0, 7, kNoStack, 3); // an allocator's own
    EXPECT_EQ(tracker.events().unfollowed_alloc, 2U);
    EXPECT_EQ(tracker.account(a).unfollowed, (BlockCount{2, 150}));
    EXPECT_EQ(tracker.account(a).live(), (BlockCount{0, 0}));
}

// Nobody knows whether it succeeded, and so whose address it is.
TEST_F(TrackerTest, AReallocThatIsNotFollowedLosesItsBlock) {
    alloc(0x10, 8, a, 1);
    alloc(0x20, 8, a, 2);
    expire(20);
    send(EventKind::unseen_alloc, 1, 0, 0x10, 16, b, 30);
    const CallStackAccount& account = tracker.account(a);
    EXPECT_EQ(account.live(), (BlockCount{1, 8}));
    EXPECT_EQ(account.may_leak(), (BlockCount{1, 8}));
    EXPECT_EQ(account.free, (BlockCount{0, 0}));
    EXPECT_EQ(account.untracked, (BlockCount{1, 8}));
    EXPECT_EQ(tracker.account(b).unfollowed, (BlockCount{1, 16}));
    free(0x10, 31); // as it has not moved, or has failed
    EXPECT_EQ(tracker.events().unknown_free, 1U);
    EXPECT_EQ(tracker.events().double_free, 0U);
}

/// With --check.
struct CheckedTrackerTest : TrackerTest {
    CheckedTrackerTest() : TrackerTest({.expire_ns = 1000, .check = true}) {}
    using ErrorKind = MemoryError::Kind;
    std::vector<ErrorKind> kinds() {
        std::vector<ErrorKind> result;
        for (const MemoryError& error : tracker.errors()) {
            result.push_back(error.kind);
        }
        return result;
    }
};

TEST_F(CheckedTrackerTest, TheFirstFreeIsKnown) {
    const StackId c = stack(0x3000);
    alloc(0x10, 100, a, 1);
    free(0x10, 2, b);
    for (int i = 0; i < 12; ++i) {
        free(0x10, 3, c);
    }
    ASSERT_EQ(kinds(), std::vector{ErrorKind::double_free});
    const MemoryError& error = tracker.errors()[0];
    EXPECT_EQ(error.alloc_stack, a);
    EXPECT_EQ(error.freed_before, b);
    EXPECT_EQ(error.free_stack, c);
    EXPECT_EQ(error.size, 100U);
    EXPECT_EQ(error.count, 12U);
    EXPECT_EQ(tracker.events().double_free, 12U);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 2U); // the first and the tenth
    EXPECT_EQ(told[1].error.count, 10U);
}

TEST_F(CheckedTrackerTest, AReallocIsToldWhenItBegins) {
    alloc(0x10, 100, a, 1);
    free(0x10, 2, b);
    send(EventKind::realloc_begin, 1, 0, 0x10, 0, b, 3); // it may never return
    EXPECT_EQ(kinds(), std::vector{ErrorKind::realloc_freed});
    send(EventKind::realloc_begin, 2, 0, 0x1008, 0, b, 3);
    EXPECT_EQ(tracker.errors().size(), 1U); // anything before the attach
    alloc(0x1000, 100, a, 4);
    send(EventKind::realloc_begin, 3, 0, 0x1008, 0, b, 5);
    ASSERT_EQ(tracker.errors().size(), 2U);
    EXPECT_EQ(tracker.errors()[1].kind, ErrorKind::inside_block);
    EXPECT_TRUE(tracker.errors()[1].by_realloc);
    EXPECT_EQ(tracker.events().invalid_free, 1U);
}

TEST_F(CheckedTrackerTest, ABlockThatReallocMovedIsFreed) {
    alloc(0x1000, 100, a, 1);
    send(EventKind::realloc_begin, 1, 0, 0x1000, 0, b, 2);
    send(EventKind::realloc_end, 1, 0x2000, 0x1000, 200, b, 3);
    free(0x1010, 4, a);
    EXPECT_EQ(kinds(), std::vector{ErrorKind::inside_freed});
    EXPECT_EQ(tracker.errors()[0].freed_before, b);
}

TEST_F(CheckedTrackerTest, WhatWasGivenOutDuringAReallocIsNotFreedByIt) {
    alloc(0x1000, 100, a, 1);
    send(EventKind::realloc_begin, 1, 0, 0x1000, 0, b, 2);
    send(EventKind::hidden_alloc, 2, 0x1010, 0, 0, kNoStack, 3); // a part of it, to somebody
    send(EventKind::realloc_end, 1, 0x2000, 0x1000, 200, b, 4);
    free(0x1010, 5, a);
    EXPECT_TRUE(kinds().empty());
    EXPECT_EQ(tracker.events().unknown_free, 1U);
}

TEST_F(CheckedTrackerTest, AFailedReallocLeavesTheBlockAsItWas) {
    tracker.on_event({.kind = EventKind::alloc,
                      .tid = Tid(1),
                      .address = RemoteAddr(0x1000),
                      .size = 100,
                      .old_address = {},
                      .stack = a,
                      .time = MonotonicNs(1),
                      .by = AllocatedBy::c});
    send(EventKind::realloc_begin, 1, 0, 0x1000, 0, b, 2);
    send(EventKind::realloc_failed, 1, 0, 0x1000, 0, b, 3);
    free(0x1010, 4, b);
    EXPECT_EQ(kinds(), std::vector{ErrorKind::inside_block});
    tracker.on_event({.kind = EventKind::free,
                      .tid = Tid(1),
                      .address = RemoteAddr(0x1000),
                      .old_address = {},
                      .stack = b,
                      .time = MonotonicNs(5),
                      .by = AllocatedBy::array_new});
    ASSERT_EQ(tracker.errors().size(), 2U);
    EXPECT_EQ(tracker.errors()[1].kind, ErrorKind::mismatch);
    EXPECT_EQ(tracker.events().mismatched_free, 1U);
    EXPECT_EQ(tracker.events().free, 1U);
}

// Generated code may have called an operator new, of which only the malloc is followed.
TEST_F(CheckedTrackerTest, AfterAnAllocationThatIsNotFollowedBlocksHaveNoKind) {
    const auto send_by = [this](EventKind kind, std::uint64_t address, AllocatedBy by) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(1),
                          .address = RemoteAddr(address),
                          .size = 8,
                          .old_address = {},
                          .stack = a,
                          .time = MonotonicNs(1),
                          .by = by});
    };
    send_by(EventKind::alloc, 0x1000, AllocatedBy::c);
    send(EventKind::unseen_alloc, 1, 0, 0, 8, b, 2);
    send_by(EventKind::alloc, 0x2000, AllocatedBy::c);
    send_by(EventKind::free, 0x2000, AllocatedBy::operator_new);
    EXPECT_EQ(tracker.events().mismatched_free, 0U);
    send_by(EventKind::free, 0x1000, AllocatedBy::operator_new); // that is certain
    EXPECT_EQ(tracker.events().mismatched_free, 1U);
}

TEST_F(CheckedTrackerTest, ErrorsAreBounded) {
    for (std::uint64_t i = 0; i < MemoryErrors::kMost + 10; ++i) {
        const StackId here = stack(0x10000 + i);
        alloc(0x10, 100, a, 1);
        free(0x10, 2, b);
        free(0x10, 3, here);
    }
    EXPECT_EQ(tracker.errors().size(), MemoryErrors::kMost);
    EXPECT_EQ(tracker.events().double_free, MemoryErrors::kMost + 10);
}

TEST_F(TrackerTest, AnAddressThatIsAllocatedAnewMayBeFreedAnew) {
    alloc(0x10, 1, a, 1);
    free(0x10, 2);
    alloc(0x10, 1, b, 3);
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 4);
    EXPECT_EQ(tracker.events().free, 2U);
    EXPECT_EQ(tracker.events().double_free, 0U);
}

TEST_F(TrackerTest, AMissedFreeEndsTheOldBlock) {
    alloc(0x10, 100, a, 1);
    alloc(0x10, 30, b, 5);
    EXPECT_EQ(tracker.missed_frees(), 1U);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 30}));
    free(0x10, 6);
    EXPECT_EQ(tracker.events().free, 1U);
    EXPECT_EQ(tracker.events().double_free, 0U);
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

TEST_F(TrackerTest, ExecEndsEveryBlockAndNoneLeaks) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 50, b, 5);
    realloc_begin(2, 0x20, 6);
    expire(10);
    tracker.on_memory_gone(MonotonicNs(20));
    EXPECT_EQ(tracker.blocks().size(), 0U);
    EXPECT_EQ(tracker.account(a).may_leak(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), BlockCount{});
    // The new program's address, of a block whose allocation we do not see: no double free.
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x20)));
    free(0x20, 25);
    EXPECT_EQ(tracker.events().double_free, 0U);
    alloc(0x10, 1, b, 30);
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 1}));
}

TEST_F(TrackerTest, GoneCodeMakesAnotherStack) {
    alloc(0x10, 1, a, 0);
    tracker.on_code_gone({0x1000, 0x1001});
    const StackId anew = stack(0x1000);
    EXPECT_NE(anew, a);
    alloc(0x20, 1, anew, 1);
    EXPECT_EQ(tracker.account(a).alloc.blocks, 1U);
    EXPECT_EQ(tracker.account(anew).alloc.blocks, 1U);
    EXPECT_EQ(tracker.stacks().frames(a).size(), 1U);
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
    EXPECT_EQ(notices(), std::vector{Kind::expired});
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

TEST_F(TrackerTest, ForgottenBlocksAreLost) {
    alloc(0x10, 100, a, 0);
    alloc(0x20, 30, a, 5);
    alloc(0x30, 7, b, 6);
    alloc(0x40, 9, b, 7);
    free(0x40, 8);
    expire(10);
    realloc_begin(2, 0x30, 11);
    tracker.forget_live(MonotonicNs(12));
    EXPECT_EQ(tracker.blocks().size(), 0U);
    EXPECT_EQ(tracker.blocks().bytes(), 0U);
    EXPECT_EQ(tracker.account(a).untracked, (BlockCount{2, 130}));
    EXPECT_EQ(tracker.account(a).untracked_expired, (BlockCount{1, 100}));
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(a).free, BlockCount{});
    EXPECT_EQ(tracker.account(a).may_leak(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), BlockCount{});
    EXPECT_EQ(tracker.next_expiry(), std::nullopt);
    expire(50);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U);
    // What was set aside, or freed before, is unknown from now on.
    free(0x10, 51);
    free(0x40, 52);
    realloc_end(2, 0x30, 0x60, 8, b, 53);
    EXPECT_EQ(tracker.events().unknown_free, 3U);
    EXPECT_EQ(tracker.events().double_free, 0U);
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 8}));
    alloc(0x10, 1, a, 54);
    free(0x10, 55);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.missed_frees(), 0U);
}

TEST_F(TrackerTest, IntervalsBeginAnewWhenBlocksAreForgotten) {
    alloc(0x10, 100, a, 0);
    tracker.forget_live(MonotonicNs(12));
    alloc(0x20, 30, a, 13);
    auto counts = tracker.intervals().of(a, MonotonicNs(14));
    ASSERT_EQ(counts.size(), 1U);
    EXPECT_EQ(counts[0].begin, MonotonicNs(12));
    EXPECT_EQ(counts[0].live, tracker.account(a).live());
    tracker.intervals().stop(MonotonicNs(15));
    tracker.forget_live(MonotonicNs(16));
    EXPECT_TRUE(tracker.intervals().of(a, MonotonicNs(17)).empty());
    EXPECT_FALSE(tracker.intervals().recording());
}

TEST_F(TrackerTest, IntervalsKnowMissedFreesAndExec) {
    alloc(0x10, 100, a, 1);
    alloc(0x10, 30, b, 5);
    EXPECT_EQ(tracker.intervals().of(a, MonotonicNs(6))[0].live, BlockCount{});
    EXPECT_EQ(tracker.intervals().of(b, MonotonicNs(6))[0].live, (BlockCount{1, 30}));
    tracker.on_memory_gone(MonotonicNs(7));
    EXPECT_EQ(tracker.intervals().of(b, MonotonicNs(8))[0].live, BlockCount{});
    EXPECT_EQ(tracker.intervals().of(b, MonotonicNs(8))[0].alloc, (BlockCount{1, 30}));
}

struct TrackerRealloc : TrackerTest {};

TEST_F(TrackerRealloc, EndsOneBlockAndBeginsOne) {
    alloc(0x10, 100, a, 1);
    realloc_begin(1, 0x10, 2);
    realloc_end(1, 0x10, 0x20, 200, b, 3);
    EXPECT_EQ(tracker.account(a).free, (BlockCount{1, 100}));
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 200}));
    EXPECT_EQ(tracker.events().alloc, 1U);
    EXPECT_EQ(tracker.events().realloc, 1U);
    EXPECT_EQ(tracker.events().free, 0U);
    EXPECT_TRUE(tracker.wants_free_stack(RemoteAddr(0x10)));
}

TEST_F(TrackerRealloc, InPlaceBeginsANewBlockToo) {
    alloc(0x10, 100, a, 1);
    realloc_begin(1, 0x10, 8);
    realloc_end(1, 0x10, 0x10, 120, b, 9);
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 120}));
    EXPECT_EQ(tracker.next_expiry(), MonotonicNs(19));
    free(0x10, 10);
    EXPECT_EQ(tracker.events().free, 1U);
    EXPECT_EQ(tracker.events().double_free, 0U);
    EXPECT_EQ(tracker.missed_frees(), 0U);
}

TEST_F(TrackerRealloc, FailureRestoresAgeAndExpiry) {
    alloc(0x10, 1, a, 1);
    alloc(0x20, 1, b, 2);
    realloc_begin(1, 0x10, 3);
    send(EventKind::realloc_failed, 1, 0, 0x10, 0, kNoStack, 4);
    EXPECT_EQ(tracker.next_expiry(), MonotonicNs(11));
    expire(11);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U);
    realloc_begin(1, 0x10, 12);
    send(EventKind::realloc_failed, 1, 0, 0x10, 0, kNoStack, 13);
    EXPECT_EQ(tracker.account(a).may_leak().blocks, 1U);
    expire(50);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U); // not once more
    EXPECT_EQ(tracker.events().realloc, 0U);
}

TEST_F(TrackerRealloc, DoesNotExpireMeanwhile) {
    alloc(0x10, 1, a, 1);
    realloc_begin(1, 0x10, 2);
    expire(50);
    EXPECT_EQ(tracker.account(a).expired.blocks, 0U);
    EXPECT_EQ(tracker.account(a).live().blocks, 1U);
    send(EventKind::realloc_failed, 1, 0, 0x10, 0, kNoStack, 60);
    expire(60);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U);
}

TEST_F(TrackerRealloc, ToSizeZeroFrees) {
    alloc(0x10, 1, a, 1);
    realloc_begin(1, 0x10, 2);
    send(EventKind::realloc_free, 1, 0, 0x10, 0, b, 3);
    EXPECT_EQ(tracker.events().free, 1U);
    EXPECT_EQ(tracker.events().realloc, 0U);
    EXPECT_EQ(tracker.blocks().size(), 0U);
}

TEST_F(TrackerTest, WhatIsNoBlockIsNotFreedTwice) {
    alloc(0x10, 1, a, 1);
    free(0x10, 2);
    send(EventKind::hidden_alloc, 1, 0x10, 0, 0, kNoStack, 3);
    EXPECT_EQ(tracker.blocks().size(), 0U);
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 4);
    EXPECT_EQ(tracker.events().double_free, 0U);
    EXPECT_EQ(tracker.events().unknown_free, 1U);
}

TEST_F(TrackerRealloc, OfAnUnknownBlock) {
    realloc_begin(1, 0x10, 2);
    realloc_end(1, 0x10, 0x20, 5, a, 3);
    EXPECT_EQ(tracker.events().unknown_free, 1U);
    EXPECT_EQ(tracker.events().realloc, 1U);
    EXPECT_EQ(tracker.account(a).live(), (BlockCount{1, 5}));
    realloc_begin(1, 0x30, 4);
    send(EventKind::realloc_free, 1, 0, 0x30, 0, a, 5);
    EXPECT_EQ(tracker.events().unknown_free, 2U);
    EXPECT_EQ(tracker.events().free, 0U);
}

TEST_F(TrackerRealloc, OfAFreedBlockIsADoubleFree) {
    alloc(0x10, 1, a, 1);
    free(0x10, 2);
    realloc_begin(1, 0x10, 3);
    realloc_end(1, 0x10, 0x20, 5, b, 4);
    EXPECT_EQ(tracker.events().double_free, 1U);
    EXPECT_EQ(tracker.events().unknown_free, 0U);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].stack, a);
}

TEST_F(TrackerRealloc, AnotherThreadMayGetTheOldAddressBeforeTheReturn) {
    alloc(0x10, 100, a, 1);
    realloc_begin(1, 0x10, 2);
    alloc(0x10, 30, b, 3, 2);
    realloc_end(1, 0x10, 0x20, 200, a, 4);
    EXPECT_EQ(tracker.missed_frees(), 0U);
    EXPECT_EQ(tracker.account(a).live(), (BlockCount{1, 200}));
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 30}));
    EXPECT_FALSE(tracker.wants_free_stack(RemoteAddr(0x10)));
    free(0x10, 5);
    EXPECT_EQ(tracker.account(b).live(), BlockCount{});
    EXPECT_EQ(tracker.events().double_free, 0U);
}

TEST_F(TrackerRealloc, OfAnUnknownBlockIsNoDoubleFreeWhateverHappensMeanwhile) {
    realloc_begin(1, 0x10, 1);
    alloc(0x10, 1, a, 2, 2); // realloc has given the old block back already
    free(0x10, 3);
    realloc_end(1, 0x10, 0x20, 5, b, 4);
    EXPECT_EQ(tracker.events().double_free, 0U);
    EXPECT_EQ(tracker.events().unknown_free, 1U);
}

TEST_F(TrackerRealloc, AnAddressFreedByAnotherMeanwhileIsTheOthers) {
    alloc(0x10, 1, a, 1);
    realloc_begin(1, 0x10, 2);
    alloc(0x10, 1, b, 3, 2);
    free(0x10, 4);
    realloc_end(1, 0x10, 0x20, 5, a, 5);
    free(0x10, 6, a);
    const auto told = tracker.take_notices();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].stack, b);
}

TEST_F(TrackerRealloc, FailedAlthoughTheAddressIsAnothersNow) {
    alloc(0x10, 100, a, 1);
    realloc_begin(1, 0x10, 2);
    alloc(0x10, 30, b, 3, 2);
    send(EventKind::realloc_failed, 1, 0, 0x10, 0, kNoStack, 4);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 30}));
    EXPECT_EQ(tracker.blocks().size(), 1U);
}

TEST_F(TrackerRealloc, BegunAnewByTheSameThreadRestoresTheFirst) {
    alloc(0x10, 1, a, 1);
    alloc(0x20, 2, a, 2);
    realloc_begin(1, 0x10, 3);
    realloc_begin(1, 0x20, 4);
    realloc_end(1, 0x20, 0x30, 3, b, 5);
    EXPECT_EQ(tracker.account(a).live(), (BlockCount{1, 1}));
    free(0x10, 6);
    EXPECT_EQ(tracker.events().free, 1U);
}

TEST_F(TrackerRealloc, OfSeveralThreadsAtOnce) {
    alloc(0x10, 1, a, 1);
    alloc(0x20, 2, a, 2);
    realloc_begin(1, 0x10, 3);
    realloc_begin(2, 0x20, 4);
    realloc_end(1, 0x10, 0x20, 10, b, 5); // gets what the other one gave back
    realloc_end(2, 0x20, 0x10, 20, b, 6);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{2, 30}));
    EXPECT_EQ(tracker.missed_frees(), 0U);
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
    ASSERT_EQ(told.size(), 4U);
    EXPECT_EQ(told[3].kind, Kind::block_limit);
    EXPECT_EQ(told[3].id, 1U);
    EXPECT_EQ(told[3].count, 3U);
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
    EXPECT_LE(told.size(), 20'000U);
    EXPECT_EQ(told.back().stack, b); // a first expiry is told nevertheless: it shows the backtrace
    EXPECT_EQ(tracker.account(a).expired.blocks, 100'000U);
}

// An engine may tell the two ends of a block as one: the account must not show which way it was.
TEST_F(TrackerTest, ABriefBlockIsABlock) {
    Tracker two({.expire_ns = 10});
    const StackId same = two.intern(std::vector{FrameAddress::exact(CodeAddr(0x1000))},
                                    StackEnd::outermost);
    AllocationEvent event{.kind = EventKind::brief,
                          .tid = Tid(1),
                          .address = RemoteAddr(0x10),
                          .size = 100,
                          .old_address = {},
                          .stack = a,
                          .time = MonotonicNs(5)};
    for (const std::int64_t age : {0, 9, 10, 30}) { // the last two have expired
        event.age = age;
        tracker.on_event(event);
        AllocationEvent begin = event;
        begin.kind = EventKind::alloc;
        begin.stack = same;
        two.on_event(begin);
        AllocationEvent end = begin;
        end.kind = EventKind::free;
        end.stack = kNoStack;
        end.time = MonotonicNs(event.time.value() + age);
        two.on_event(end);
        event.time = MonotonicNs(event.time.value() + 100);
    }
    const CallStackAccount& one = tracker.account(a);
    const CallStackAccount& other = two.account(same);
    EXPECT_EQ(one.alloc, (BlockCount{4, 400}));
    EXPECT_EQ(one.alloc, other.alloc);
    EXPECT_EQ(one.free, other.free);
    EXPECT_EQ(one.expired, other.expired);
    EXPECT_EQ(one.free_expired, other.free_expired);
    EXPECT_EQ(one.lifetime_min, other.lifetime_min);
    EXPECT_EQ(one.lifetime_max, other.lifetime_max);
    EXPECT_EQ(one.lifetime_sum, other.lifetime_sum);
    EXPECT_EQ(tracker.events().alloc, two.events().alloc);
    EXPECT_EQ(tracker.events().free, two.events().free);
    // It is known as freed, by where it was allocated.
    free(0x10, 500);
    EXPECT_EQ(tracker.events().double_free, 1U);
    ASSERT_EQ(tracker.errors().size(), 1U);
    EXPECT_EQ(tracker.errors()[0].alloc_stack, a);
}

TEST_F(TrackerTest, ABriefBlockEndsTheOneThatWasThere) {
    alloc(0x10, 100, a, 0);
    tracker.on_event({.kind = EventKind::brief,
                      .tid = Tid(1),
                      .address = RemoteAddr(0x10),
                      .size = 7,
                      .old_address = {},
                      .stack = b,
                      .time = MonotonicNs(2),
                      .age = 1});
    EXPECT_EQ(tracker.missed_frees(), 1U);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).alloc, (BlockCount{1, 7}));
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
    EXPECT_EQ(tracker.told_until(MonotonicNs(50)), MonotonicNs(9));
    free(0x10, 9);
    tracker.on_watermark(MonotonicNs(40));
    expire(50);
    EXPECT_EQ(tracker.account(a).expired, BlockCount{});
    alloc(0x20, 50, b, 35);
    expire(50);
    EXPECT_EQ(tracker.account(b).expired, BlockCount{}) << "at 40 it was 5 old";
    tracker.on_watermark(kAllTold);
    expire(50);
    EXPECT_EQ(tracker.account(b).expired, (BlockCount{1, 50}));
}

TEST_F(TrackerTest, ABatchIsItsEventsInOrder) {
    const AllocationEvent events[] = {{.kind = EventKind::alloc,
                                       .tid = Tid(1),
                                       .address = RemoteAddr(0x10),
                                       .size = 8,
                                       .old_address = {},
                                       .stack = a,
                                       .time = MonotonicNs(1)},
                                      {.kind = EventKind::free,
                                       .tid = Tid(2),
                                       .address = RemoteAddr(0x10),
                                       .old_address = {},
                                       .time = MonotonicNs(2)},
                                      {.kind = EventKind::alloc,
                                       .tid = Tid(2),
                                       .address = RemoteAddr(0x10),
                                       .size = 24,
                                       .old_address = {},
                                       .stack = b,
                                       .time = MonotonicNs(3)}};
    tracker.on_events(events);
    EXPECT_EQ(tracker.account(a).live(), BlockCount{});
    EXPECT_EQ(tracker.account(b).live(), (BlockCount{1, 24}));
    EXPECT_EQ(tracker.missed_frees(), 0U);
}

} // namespace
} // namespace memleax
