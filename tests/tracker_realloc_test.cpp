// SPDX-License-Identifier: GPL-3.0-or-later
// A realloc takes its block when it begins, and what becomes of it is known when it returns.
#include "memleax/track/tracker.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tracker_support.hpp"

namespace memleax {
namespace {

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

} // namespace
} // namespace memleax
