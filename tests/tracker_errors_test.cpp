// SPDX-License-Identifier: GPL-3.0-or-later
// Frees of what is not live, and with --check by the wrong functions.
#include "memleax/track/tracker.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tracker_support.hpp"

namespace memleax {
namespace {

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

TEST_F(CheckedTrackerTest, ErrorsAndLiveBlocksOutliveTheirProcess) {
    alloc(0x100, 32, a, 1);
    alloc(0x200, 16, a, 2);
    free(0x100, 3, b);
    free(0x100, 4, b);
    tracker.on_process_ended();
    expire(1002);
    tracker.compact();
    ASSERT_EQ(tracker.errors().size(), 1U);
    EXPECT_EQ(tracker.errors()[0].kind, MemoryError::Kind::double_free);
    EXPECT_EQ(tracker.events().double_free, 1U);
    const auto id = tracker.blocks().find(RemoteAddr(0x200));
    ASSERT_TRUE(id);
    EXPECT_EQ(tracker.blocks()[*id].stack, a);
    EXPECT_TRUE(tracker.blocks()[*id].expired);
    EXPECT_EQ(tracker.account(a).expired.blocks, 1U);
    free(0x100, 1003, b); // what comes late is not known to be wrong
    EXPECT_EQ(tracker.events().double_free, 1U);
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

} // namespace
} // namespace memleax
