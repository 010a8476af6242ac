// SPDX-License-Identifier: GPL-3.0-or-later
// The account between two threads: one feeds it, the other looks. Under ThreadSanitizer (the preset
// "tsan") what is not locked is reported.
#include "memleax/session/shared_tracker.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr int kBatches = 20'000;
constexpr std::uint64_t kBlockSize = 32;

StackId stack_at(SharedTracker& tracker, std::uint64_t pc) {
    return tracker.intern(std::vector{FrameAddress::exact(CodeAddr(pc))}, StackEnd::outermost);
}

AllocationEvent event(EventKind kind, std::uint64_t address, StackId stack, std::int64_t time) {
    return {.kind = kind,
            .tid = Tid(1),
            .address = RemoteAddr(address),
            .size = kBlockSize,
            .old_address = {},
            .stack = stack,
            .time = MonotonicNs(time)};
}

class SharedTrackerTest : public ::testing::Test {
  protected:
    /// In each batch two blocks begin, and of the batch before one ends.
    void feed() {
        for (int i = 1; i <= kBatches; ++i) {
            const StackId stack = stack_at(tracker_, 0x1000 + static_cast<std::uint64_t>(i) % 100);
            const std::uint64_t first = static_cast<std::uint64_t>(i) * 0x100;
            std::vector events{event(EventKind::alloc, first, stack, i),
                               event(EventKind::alloc, first + 0x40, stack, i)};
            if (i > 1) {
                events.push_back(event(EventKind::free, first - 0x100, kNoStack, i));
            }
            tracker_.on_events(events);
        }
        fed_ = true;
    }

    std::atomic<bool> abandoned_{false};
    std::atomic<bool> fed_{false};
    SharedTracker tracker_{{.memory_block_max = 0, .call_stack_max = 0}, abandoned_};
};

TEST_F(SharedTrackerTest, WhoLooksSeesWholeBatchesAndNothingIsLost) {
    std::thread tracer([this] { feed(); });
    std::uint64_t before = 0;
    while (!fed_) {
        const auto [allocated, freed] = tracker_.with([](Tracker& tracker) {
            return std::pair(tracker.events().alloc, tracker.events().free);
        });
        EXPECT_EQ(allocated % 2, 0U);
        EXPECT_EQ(freed, allocated == 0 ? 0 : allocated / 2 - 1);
        const TrackerSnapshot snapshot = tracker_.snapshot(MonotonicNs(kBatches));
        EXPECT_GE(snapshot.events.alloc, before);
        before = snapshot.events.alloc;
        tracker_.for_each_block([](const Block& block) { EXPECT_EQ(block.size, kBlockSize); });
    }
    tracer.join();
    BlockCount live;
    for (const StackSnapshot& stack : tracker_.snapshot(MonotonicNs(kBatches)).stacks) {
        live.blocks += stack.account.live().blocks;
        live.bytes += stack.account.live().bytes;
    }
    EXPECT_EQ(live, (BlockCount{kBatches + 1, (kBatches + 1) * kBlockSize}));
    std::uint64_t blocks = 0;
    tracker_.for_each_block([&blocks](const Block& /*block*/) { ++blocks; });
    EXPECT_EQ(blocks, kBatches + 1U);
}

TEST_F(SharedTrackerTest, ASnapshotIsOfTheWatermark) {
    tracker_.on_watermark(MonotonicNs(70));
    EXPECT_EQ(tracker_.snapshot(MonotonicNs(100)).time, MonotonicNs(70));
    EXPECT_EQ(tracker_.snapshot(MonotonicNs(50)).time, MonotonicNs(50));
}

// The thread that has the lock has crashed: the tracer must get on with leaving.
TEST_F(SharedTrackerTest, NobodyWaitsForAnAbandonedLock) {
    tracker_.with([this](Tracker& /*tracker*/) {
        abandoned_ = true;
        std::thread tracer([this] {
            tracker_.on_event(event(EventKind::alloc, 0x100, kNoStack, 1));
            EXPECT_EQ(stack_at(tracker_, 0x1000), kNoStack);
            EXPECT_TRUE(tracker_.is_live(RemoteAddr(0x100)));
        });
        tracer.join();
        return 0;
    });
    abandoned_ = false;
    EXPECT_EQ(tracker_.with([](Tracker& tracker) { return tracker.events().alloc; }), 0U);
}

} // namespace
} // namespace memleax
