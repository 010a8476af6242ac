// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/tracker.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tracker_support.hpp"

namespace memleax {
namespace {

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

TEST_F(TrackerTest, AnAllocationThatIsNotFollowedIsCountedByItsStack) {
    send(EventKind::unseen_alloc, 1, 0, 0, 100, a, 1);
    send(EventKind::unseen_alloc, 1, 0, 0, 50, a, 2);
    send(EventKind::unseen_alloc, 1, 0, 0, 7, kNoStack, 3); // an allocator's own
    EXPECT_EQ(tracker.events().unfollowed_alloc, 2U);
    EXPECT_EQ(tracker.account(a).unfollowed, (BlockCount{2, 150}));
    EXPECT_EQ(tracker.account(a).live(), (BlockCount{0, 0}));
}

// What is called a size by --alloc may be -1.
TEST_F(TrackerTest, BytesThatNoProcessHasAreNotCounted) {
    const std::uint64_t minus_one = ~std::uint64_t{0};
    expire(0);
    for (std::uint64_t i = 1; i <= 40; ++i) {
        alloc(i * 0x10, i % 2 == 0 ? minus_one : 1ULL << 56U, a, 1);
    }
    send(EventKind::brief, 1, 0x1000, 0, minus_one, a, 2);
    send(EventKind::unseen_alloc, 1, 0, 0, minus_one, a, 2);
    alloc(0x2000, (1ULL << 56U) - 1, b, 2);
    free(0x10, 3);
    free(0x20, 3);
    const CallStackAccount& account = tracker.account(a);
    EXPECT_EQ(account.alloc, (BlockCount{41, 0}));
    EXPECT_EQ(account.free, (BlockCount{3, 0}));
    EXPECT_EQ(account.live(), (BlockCount{38, 0}));
    EXPECT_EQ(account.unfollowed, (BlockCount{1, 0}));
    EXPECT_EQ(tracker.blocks().bytes(), (1ULL << 56U) - 1);
    BlockCount live;
    for (const IntervalCount& interval : tracker.intervals().of(a, MonotonicNs(4))) {
        live = live + interval.live;
    }
    EXPECT_EQ(live.bytes, 0U);
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

// An engine may tell the two ends of a block as one: the account must not show which way it was.
TEST_F(TrackerTest, ABriefBlockIsABlock) {
    Tracker two({.expire_ns = 10});
    const StackId same =
        two.intern(std::vector{FrameAddress::exact(CodeAddr(0x1000))}, StackEnd::outermost);
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

} // namespace
} // namespace memleax
