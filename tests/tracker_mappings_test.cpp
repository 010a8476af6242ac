// SPDX-License-Identifier: GPL-3.0-or-later
// The tracker's account of memory that is mapped: what one call stack has, has lost in part, lets
// expire.
#include <gtest/gtest.h>

#include "memleax/track/tracker.hpp"
#include "memleax/track/tracker_snapshot.hpp"

namespace memleax {
namespace {

constexpr std::int64_t kExpire = 1000;

class TrackerMappings : public ::testing::Test {
  protected:
    static MappingEvent event(MappingEvent::Step step, MappingCall call, std::int64_t time) {
        MappingEvent made;
        made.step = step;
        made.call = call;
        made.kind = MemoryKind::mmap;
        made.tid = Tid(1);
        made.time = MonotonicNs(time);
        return made;
    }
    StackId stack(std::uint64_t pc) {
        const FrameAddress frame = FrameAddress::exact(CodeAddr(pc));
        return tracker.intern(std::span(&frame, 1), StackEnd::outermost);
    }
    void map(AddrRange range, StackId id, std::int64_t time, MemoryKind kind = MemoryKind::mmap) {
        MappingEvent made = event(MappingEvent::Step::succeeded, MappingCall::mmap, time);
        made.added = range;
        made.stack = id;
        made.kind = kind;
        tracker.on_mapping(made);
    }
    void begin(MappingCall call, AddrRange range, std::int64_t time = 0, Tid tid = Tid(1)) {
        MappingEvent made = event(MappingEvent::Step::called, call, time);
        made.unmapped[0] = range;
        made.tid = tid;
        tracker.on_mapping(made);
    }
    void end(MappingEvent::Step step, MappingCall call, std::int64_t time, Tid tid = Tid(1)) {
        MappingEvent made = event(step, call, time);
        made.stack = stack(0x999);
        made.tid = tid;
        tracker.on_mapping(made);
    }
    void unmap(AddrRange range, std::int64_t time) {
        begin(MappingCall::munmap, range, time);
        end(MappingEvent::Step::succeeded, MappingCall::munmap, time);
    }
    BlockCount live(StackId id) { return tracker.account(id).live(); }

    Tracker tracker{{.expire_ns = kExpire}};
};

TEST_F(TrackerMappings, ARangeIsABlockUntilItsLastByteIsGone) {
    const StackId id = stack(0x100);
    map({0x1000, 0x5000}, id, 0);
    unmap({0x2000, 0x3000}, 10);
    EXPECT_EQ(live(id), (BlockCount{1, 0x3000}));
    unmap({0x0, 0x2000}, 20);
    unmap({0x3000, 0x9000}, 30);
    EXPECT_EQ(live(id), (BlockCount{0, 0}));
    EXPECT_EQ(tracker.account(id).free, (BlockCount{1, 0x4000}));
    EXPECT_EQ(tracker.account(id).lifetime_max, 30);
    EXPECT_EQ(tracker.mapped_totals().unmapped, 3U);
    EXPECT_EQ(tracker.mapped_totals().live.at(1), (BlockCount{0, 0}));
}

TEST_F(TrackerMappings, WhatIsLeftExpires) {
    const StackId id = stack(0x100);
    map({0x1000, 0x5000}, id, 0);
    unmap({0x1000, 0x2000}, 10);
    EXPECT_FALSE(tracker.expire(MonotonicNs(kExpire), 10));
    EXPECT_EQ(tracker.account(id).may_leak(), (BlockCount{1, 0x3000}));
    unmap({0x2000, 0x3000}, 2 * kExpire);
    EXPECT_EQ(tracker.account(id).may_leak(), (BlockCount{1, 0x2000}));
    unmap({0x3000, 0x5000}, 3 * kExpire);
    EXPECT_EQ(tracker.account(id).may_leak(), (BlockCount{0, 0}));
    EXPECT_EQ(tracker.account(id).free_expired, (BlockCount{1, 0x3000}));
}

TEST_F(TrackerMappings, IntervalsLoseBytesAtOnceAndBlocksAtTheEnd) {
    tracker.intervals().start(MonotonicNs(-1));
    const StackId id = stack(0x100);
    map({0x1000, 0x5000}, id, 0);
    unmap({0x1000, 0x2000}, 10);
    auto intervals = tracker.intervals().of(id, MonotonicNs(20));
    ASSERT_EQ(intervals.size(), 1U);
    EXPECT_EQ(intervals[0].live, (BlockCount{1, 0x3000}));
    unmap({0x2000, 0x5000}, 30);
    intervals = tracker.intervals().of(id, MonotonicNs(40));
    EXPECT_EQ(intervals[0].live, (BlockCount{0, 0}));
    EXPECT_EQ(intervals[0].alloc, (BlockCount{1, 0x4000}));
}

TEST_F(TrackerMappings, AFailedCallChangesNothing) {
    const StackId id = stack(0x100);
    map({0x1000, 0x5000}, id, 0);
    begin(MappingCall::munmap, {0x2000, 0x3000});
    EXPECT_EQ(live(id), (BlockCount{1, 0x4000}));
    end(MappingEvent::Step::failed, MappingCall::munmap, 10);
    EXPECT_EQ(live(id), (BlockCount{1, 0x4000}));
    EXPECT_EQ(tracker.mapped().pieces().size(), 1U);
    EXPECT_EQ(tracker.mapped_totals().failed, 1U);
}

TEST_F(TrackerMappings, AnotherThreadGetsTheAddressBeforeMunmapReturns) {
    const StackId first = stack(0x100);
    const StackId second = stack(0x200);
    map({0x1000, 0x3000}, first, 0);
    begin(MappingCall::munmap, {0x1000, 0x3000}, 5, Tid(7));
    map({0x1000, 0x2000}, second, 6);
    end(MappingEvent::Step::succeeded, MappingCall::munmap, 10, Tid(7));
    EXPECT_EQ(live(first), (BlockCount{0, 0}));
    EXPECT_EQ(live(second), (BlockCount{1, 0x1000}));
}

TEST_F(TrackerMappings, WhatIsMappedOverEnds) {
    const StackId below = stack(0x100);
    const StackId above = stack(0x200);
    map({0x1000, 0x9000}, below, 0);
    map({0x3000, 0x4000}, above, 1);
    EXPECT_EQ(live(below), (BlockCount{1, 0x7000}));
    EXPECT_EQ(live(above), (BlockCount{1, 0x1000}));
}

TEST_F(TrackerMappings, WhatIsMovedStaysWhatItWas) {
    const StackId id = stack(0x100);
    const StackId moved = stack(0x200);
    map({0x1000, 0x3000}, id, 0, MemoryKind::shm);
    begin(MappingCall::mremap, {0x1000, 0x3000});
    MappingEvent done = event(MappingEvent::Step::succeeded, MappingCall::mremap, 5);
    done.added = {0x8000, 0xc000};
    done.stack = moved;
    tracker.on_mapping(done);
    EXPECT_EQ(live(id), (BlockCount{0, 0}));
    EXPECT_EQ(live(moved), (BlockCount{1, 0x4000}));
    EXPECT_EQ(tracker.account(moved).kind, MemoryKind::shm);
}

TEST_F(TrackerMappings, AnAllocatorsStockNeverExpires) {
    const StackId id = stack(0x100);
    map({0x1000, 0x9000}, id, 0, MemoryKind::allocator);
    map({0x9000, 0xa000}, stack(0x200), 0, MemoryKind::thread_stack);
    EXPECT_EQ(tracker.next_expiry(), std::nullopt);
    tracker.expire(MonotonicNs(10 * kExpire), 10);
    EXPECT_EQ(tracker.account(id).expired, (BlockCount{0, 0}));
    EXPECT_EQ(live(id), (BlockCount{1, 0x8000}));
}

TEST_F(TrackerMappings, UnexplainedIsWhatWasNotThereAndNobodyHasMapped) {
    const AddrRange before[] = {{0x1000, 0x5000}};
    tracker.on_mapped_before(before);
    map({0x5000, 0x6000}, stack(0x100), 0);
    EXPECT_EQ(tracker.unexplained({0x1000, 0x8000}, 0x1000), 0x2000U);
    unmap({0x2000, 0x3000}, 10); // what comes there next was mapped by somebody
    EXPECT_EQ(tracker.unexplained({0x1000, 0x8000}, 0x1000), 0x3000U);
    begin(MappingCall::munmap, {0x3000, 0x4000});
    end(MappingEvent::Step::failed, MappingCall::munmap, 10);
    EXPECT_EQ(tracker.unexplained({0x1000, 0x8000}, 0x1000), 0x3000U);
}

// A program without a heap calls sbrk, and the break is in the midst of a page.
TEST_F(TrackerMappings, TheRestOfTheBreaksPagesIsExplained) {
    map({0x1e00, 0x4100}, stack(0x100), 0, MemoryKind::brk);
    EXPECT_EQ(tracker.unexplained({0x1000, 0x5000}, 0x1000), 0U);
    EXPECT_EQ(tracker.unexplained({0x1000, 0x2000}, 0x1000), 0U);
    EXPECT_EQ(tracker.unexplained({0x8000, 0x9000}, 0x1000), 0x1000U);
}

TEST_F(TrackerMappings, AnExecEndsAllAndAGapSetsItAside) {
    const StackId id = stack(0x100);
    map({0x1000, 0x5000}, id, 0);
    begin(MappingCall::munmap, {0x2000, 0x3000}); // the exec comes first
    tracker.on_memory_gone(MonotonicNs(20));
    EXPECT_EQ(live(id), (BlockCount{0, 0}));
    EXPECT_EQ(tracker.account(id).free, (BlockCount{1, 0x4000}));
    map({0x1000, 0x5000}, id, 30);
    unmap({0x1000, 0x2000}, 40);
    tracker.on_gap(MonotonicNs(50));
    EXPECT_EQ(live(id), (BlockCount{0, 0}));
    EXPECT_EQ(tracker.account(id).untracked, (BlockCount{1, 0x3000}));
    EXPECT_EQ(tracker.mapped_totals().live.at(1), (BlockCount{0, 0}));
}

TEST_F(TrackerMappings, TheLogKeepsTheLast) {
    for (std::uint64_t i = 0; i < MappingLog::kCapacity + 5; ++i) {
        map({0x1000 * (i + 1), 0x1000 * (i + 2)}, stack(0x100), static_cast<std::int64_t>(i));
    }
    const MappingLog& log = tracker.mapping_log();
    EXPECT_EQ(log.last(), MappingLog::kCapacity + 5);
    const auto last = log.after(log.last() - 2, 100);
    ASSERT_EQ(last.size(), 2U);
    EXPECT_EQ(last[1].number, log.last());
    EXPECT_EQ(last[1].added.begin, 0x1000 * (MappingLog::kCapacity + 5));
    const auto oldest = log.after(0, 1);
    ASSERT_EQ(oldest.size(), 1U);
    EXPECT_EQ(oldest[0].number, 6U) << "five were forgotten";
}

TEST_F(TrackerMappings, ASnapshotHasTheOldest) {
    const StackId id = stack(0x100);
    map({0x1000, 0x2000}, id, 5);
    map({0x2000, 0x3000}, id, 7);
    SnapshotCopier copier(MonotonicNs(100));
    while (copier.copy_some(tracker)) {
    }
    const TrackerSnapshot snapshot = copier.take();
    ASSERT_EQ(snapshot.stacks.size(), 1U);
    EXPECT_EQ(snapshot.stacks[0].oldest, MonotonicNs(5));
    EXPECT_EQ(snapshot.mapped.mapped, 2U);
}

} // namespace
} // namespace memleax
