// SPDX-License-Identifier: GPL-3.0-or-later
// Which of the account's blocks can be judged by a look at a process's memory? And what a graph is
// without those that cannot.
#include "../src/session/tracked_blocks.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "memleax/heap/heap_graph.hpp"
#include "memleax/session/shared_tracker.hpp"

namespace memleax {

namespace {

class TrackedBlocksTest : public ::testing::Test {
  protected:
    void tell(EventKind kind, std::uint64_t address, std::uint64_t size, std::int64_t time,
              std::uint64_t old_address = 0) {
        AllocationEvent event{};
        event.kind = kind;
        event.address = RemoteAddr(address);
        event.old_address = RemoteAddr(old_address);
        event.size = size;
        event.time = MonotonicNs(time);
        event.tid = Tid(1);
        event.stack = tracker_.intern({}, StackEnd::outermost);
        tracker_.on_event(event);
    }
    void allocate(std::uint64_t address, std::uint64_t size, std::int64_t time) {
        tell(EventKind::alloc, address, size, time);
    }
    void free(std::uint64_t address, std::int64_t time) { tell(EventKind::free, address, 0, time); }
    /// Of these blocks, which hold nothing, and are all held.
    static HeapSnapshot snapshot_of(const TrackedBlocks& tracked, std::int64_t time) {
        HeapSnapshot snapshot;
        snapshot.time = MonotonicNs(time);
        snapshot.graph.blocks = tracked.blocks();
        snapshot.graph.links.finish(tracked.blocks().size());
        return snapshot;
    }

    std::atomic<bool> abandoned_{false};
    SharedTracker tracker_{Tracker::Options{}, abandoned_};
};

using Blocks = HeapBlocks;

TEST_F(TrackedBlocksTest, AreThoseOfMemoryByAddress) {
    allocate(0x3000, 10, 1);
    allocate(0x1000, 0, 2);
    allocate(5 | 7ULL << 56, 0, 3); // a descriptor
    allocate(0x2000, 20, 4);
    EXPECT_EQ(
        TrackedBlocks(tracker_).blocks(),
        (Blocks{{RemoteAddr(0x1000), 0}, {RemoteAddr(0x2000), 20}, {RemoteAddr(0x3000), 10}}));
}

TEST_F(TrackedBlocksTest, OfThoseThatOverlapTheYoungestStay) {
    allocate(0x1000, 0x1000, 1); // a pool, ...
    allocate(0x1010, 0x10, 2);   // ... and what it gives
    allocate(0x1020, 0x10, 3);
    allocate(0x1ff0, 0x20, 4);
    allocate(0x3010, 0x10, 5); // of which the end was not seen
    allocate(0x3000, 0x40, 6);
    allocate(0x3020, 0x40, 4);
    EXPECT_EQ(TrackedBlocks(tracker_).blocks(), (Blocks{{RemoteAddr(0x1010), 0x10},
                                                        {RemoteAddr(0x1020), 0x10},
                                                        {RemoteAddr(0x1ff0), 0x20},
                                                        {RemoteAddr(0x3000), 0x40}}));
}

TEST_F(TrackedBlocksTest, WhatHasEndedSinceIsTakenOut) {
    for (std::uint64_t i = 1; i <= 6; ++i) {
        allocate(i * 0x1000, 0x10, static_cast<std::int64_t>(i));
    }
    const TrackedBlocks tracked(tracker_);
    HeapSnapshot snapshot = snapshot_of(tracked, 100);
    free(0x2000, 90);
    free(0x3000, 110); // after the snapshot: a thread may have been in free() there
    free(0x4000, 120);
    allocate(0x4000, 0x10, 130); // another one
    tell(EventKind::realloc_begin, 0, 0, 140, 0x5000);
    ASSERT_TRUE(tracked.drop_ended(&snapshot));
    EXPECT_EQ(snapshot.graph.blocks,
              (Blocks{{RemoteAddr(0x1000), 0x10}, {RemoteAddr(0x6000), 0x10}}));
}

TEST_F(TrackedBlocksTest, NothingIsKnownBeforeAllIsTold) {
    tracker_.on_watermark(MonotonicNs(99));
    allocate(0x1000, 0x10, 1);
    const TrackedBlocks tracked(tracker_);
    HeapSnapshot snapshot = snapshot_of(tracked, 100);
    EXPECT_FALSE(tracked.drop_ended(&snapshot));
    EXPECT_EQ(snapshot.graph.blocks.size(), 1U);
    tracker_.on_watermark(MonotonicNs(100));
    EXPECT_TRUE(tracked.drop_ended(&snapshot));
    EXPECT_EQ(snapshot.graph.blocks.size(), 1U);
}

TEST_F(TrackedBlocksTest, ThoseOfAnotherAllocatorAreNotListed) {
    for (std::uint64_t i = 1; i <= 6; ++i) {
        allocate(i * 0x1000, 0x10, static_cast<std::int64_t>(i));
    }
    allocate(5 | 7ULL << 56, 0, 7); // a descriptor
    allocate(0x7000, 0x10, 101);    // after the snapshot
    HeapSnapshot snapshot;
    snapshot.time = MonotonicNs(100);
    snapshot.graph.blocks = {{RemoteAddr(0x800), 0x18},
                             {RemoteAddr(0x2000), 0x18},
                             {RemoteAddr(0x5000), 0x18},
                             {RemoteAddr(0x5ff0), 0x28}};
    snapshot.mappings.resize(2);
    snapshot.mappings[0].range = {0x1000, 0x4000};
    snapshot.mappings[1].range = {0x4000, 0x5000};
    // 0x1000, 0x3000: freed unseen. 0x4000: in a mapping of its own. 0x6000: in a block.
    EXPECT_EQ(count_unlisted(tracker_, snapshot), 2U);
}

BlockLinks links_of(const std::vector<std::vector<BlockLink>>& rows) {
    BlockLinks links;
    for (const auto& row : rows) {
        links.begin_block();
        for (const BlockLink link : row) {
            links.add(link);
        }
    }
    links.finish(rows.size());
    return links;
}

TEST(HeapGraphTest, WhatDroppedBlocksHoldAreRoots) {
    HeapGraph graph;
    for (const std::uint64_t address : {0x1000, 0x2000, 0x3000, 0x4000}) {
        graph.blocks.push_back({RemoteAddr(address), 64});
    }
    // 0 -> 1, 3; 1 -> 2, 3 (into it); 3 -> 1. A root leads to 1, another one to 3.
    const std::vector<std::vector<BlockLink>> rows{
        {{1, false}, {3, false}}, {{2, false}, {3, true}}, {}, {{1, false}}};
    graph.links = links_of(rows);
    graph.roots = {{1, false}, {3, true}};
    graph.details.first_words = {{0, 10}, {1, 11}, {3, 13}};
    graph.details.link_words = {0, 1, 2, 3, 4};
    const RootPlace place{.kind = RootPlace::Kind::memory, .tid = {}, .address = RemoteAddr(0x500)};
    graph.details.root_places = {place, place};
    graph.details.pointer_offsets.resize(4);
    graph.details.pointer_offsets.add(3, 16);
    drop_blocks({false, true, false, false}, &graph);
    EXPECT_EQ(
        graph.blocks,
        (Blocks{{RemoteAddr(0x1000), 64}, {RemoteAddr(0x3000), 64}, {RemoteAddr(0x4000), 64}}));
    EXPECT_EQ(graph.links, links_of({{{2, false}}, {}, {}}));
    EXPECT_EQ(graph.roots, (std::vector<BlockLink>{{2, true}, {1, false}, {2, true}}));
    EXPECT_EQ(graph.details.first_words, (LargeVector<FirstWord>{{0, 10}, {2, 13}}));
    EXPECT_EQ(graph.details.link_words, (LargeVector<std::uint32_t>{1}));
    const auto in_block = [](std::uint64_t address) {
        return RootPlace{
            .kind = RootPlace::Kind::memory, .tid = {}, .address = RemoteAddr(address)};
    };
    EXPECT_EQ(graph.details.root_places,
              (std::vector<RootPlace>{place, in_block(0x2010), in_block(0x2018)}));
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(graph.details.pointer_offsets.has(i, 2), i == 2) << i;
    }
}

} // namespace
} // namespace memleax
