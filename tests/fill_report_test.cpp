// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/fill_report.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "memleax/base/clock.hpp"

namespace memleax {
namespace {

MonotonicNs at(std::int64_t s) {
    return MonotonicNs(s * kNsPerSecond);
}

/// One stack that leaks a block each second, and one that has a single block; from 100 s to 300 s.
struct FillReport : testing::Test {
    FillReport() {
        alloc(b, 100, 1 << 20);
        for (std::int64_t s = 100; s < 300; ++s) {
            tracker.expire(at(s), SIZE_MAX);
            alloc(a, s, 10);
        }
    }
    void alloc(StackId stack, std::int64_t s, std::uint64_t size) {
        tracker.on_event({.kind = EventKind::alloc,
                          .tid = Tid(1),
                          .address = RemoteAddr(next += 16),
                          .size = size,
                          .old_address = {},
                          .stack = stack,
                          .time = at(s)});
    }
    Report fill(MonotonicNs since = at(100)) {
        SnapshotCopier copier(at(300));
        while (copier.copy_some(tracker)) {
        }
        Report report;
        fill_report(
            copier.take(), since, [](StackId) { return Backtrace{}; },
            [](const Backtrace&) { return true; }, Wrappers(), &report);
        sort_report(&report);
        return report;
    }

    std::uint64_t next = 0;
    Tracker tracker{{.memory_block_max = 0, .call_stack_max = 0}};
    StackId a = tracker.intern(std::vector{FrameAddress::exact(CodeAddr(1))}, StackEnd::outermost);
    StackId b = tracker.intern(std::vector{FrameAddress::exact(CodeAddr(2))}, StackEnd::outermost);
};

TEST_F(FillReport, SaysWhatItThinksOfEachStack) {
    const Report report = fill();
    ASSERT_EQ(report.callstacks.size(), 2U);
    // Most leaked bytes last, whatever the verdict.
    ASSERT_TRUE(report.callstacks[0].judgement);
    EXPECT_EQ(report.callstacks[0].judgement->verdict, Verdict::growing);
    EXPECT_DOUBLE_EQ(report.callstacks[0].judgement->blocks_per_s, 1);
    ASSERT_TRUE(report.callstacks[1].judgement);
    EXPECT_EQ(report.callstacks[1].judgement->verdict, Verdict::plateau);
}

TEST_F(FillReport, CountsSuspectsAlsoOfStacksThatAreNotChosen) {
    EXPECT_EQ(fill().totals.leaking_stacks, 0U);
    EXPECT_EQ(fill().totals.suspect_stacks, 1U) << "growing";
    // Then the first stack leaks. The second is a plateau, though its block has expired.
    for (std::int64_t s = 300; s < 1800; ++s) {
        tracker.expire(at(s), SIZE_MAX);
        alloc(a, s, 10);
    }
    SnapshotCopier copier(at(1800));
    while (copier.copy_some(tracker)) {
    }
    Report report;
    fill_report(
        copier.take(), at(100), [](StackId) { return Backtrace{}; },
        [](const Backtrace&) { return false; }, Wrappers(), &report);
    EXPECT_TRUE(report.callstacks.empty());
    EXPECT_EQ(report.totals.leaking_stacks, 1U);
    EXPECT_EQ(report.totals.suspect_stacks, 1U);
    EXPECT_GT(report.totals.expired.bytes, 1U << 20);
}

TEST(CallStackReport, IsSuspectIfItsExpiredBlocksAreNotClearedByTheVerdict) {
    const auto is_suspect = [](std::optional<Verdict> verdict, std::uint64_t expired) {
        CallStackReport stack;
        stack.expired = {expired, expired * 10};
        if (verdict) {
            stack.judgement = Judgement{};
            stack.judgement->verdict = *verdict;
        }
        return stack.is_suspect();
    };
    for (const auto verdict : {std::optional<Verdict>(), std::optional(Verdict::too_early),
                               std::optional(Verdict::growing)}) {
        EXPECT_TRUE(is_suspect(verdict, 1));
        EXPECT_FALSE(is_suspect(verdict, 0));
    }
    EXPECT_FALSE(is_suspect(Verdict::settled, 1));
    EXPECT_FALSE(is_suspect(Verdict::plateau, 1));
    EXPECT_TRUE(is_suspect(Verdict::leaking, 1));
    EXPECT_TRUE(is_suspect(Verdict::leaking, 0)) << "--expire may be longer than a verdict takes";
}

TEST_F(FillReport, IntervalsAreThoseOfTheWatching) {
    const auto intervals = fill().callstacks[0].intervals;
    ASSERT_GT(intervals.size(), 5U);
    EXPECT_EQ(intervals.front().begin_s, 0);
    EXPECT_EQ(intervals.back().end_s, 200);
    std::uint64_t live = 0;
    for (const IntervalReport& interval : intervals) {
        EXPECT_EQ(static_cast<double>(interval.alloc.blocks), interval.end_s - interval.begin_s);
        live += interval.live.blocks;
    }
    EXPECT_EQ(live, 200U);
    EXPECT_EQ(fill(at(90)).callstacks[0].intervals.front().begin_s, 10);
}

// Sorted for each of thousands of processes anew, the report would take minutes.
TEST_F(FillReport, IsPutInOrderWhenAllProcessesAreThere) {
    SnapshotCopier copier(at(300));
    while (copier.copy_some(tracker)) {
    }
    const TrackerSnapshot snapshot = copier.take();
    Report report;
    report.page_faults.emplace();
    for (std::uint32_t process = 0; process < 2; ++process) {
        report.processes.emplace_back();
        fill_report(
            snapshot, at(100), [](StackId) { return Backtrace{}; },
            [](const Backtrace&) { return true; }, Wrappers(), &report);
        FaultStackReport& faults = report.page_faults->stacks.emplace_back();
        faults.process = process;
        faults.minor = 9 - process;
    }
    const auto processes = [&report] {
        std::vector<std::uint32_t> result;
        for (const CallStackReport& stack : report.callstacks) {
            result.push_back(stack.process);
        }
        return result;
    };
    EXPECT_EQ(processes(), (std::vector<std::uint32_t>{0, 0, 1, 1})) << "as they came";
    sort_report(&report);
    EXPECT_EQ(processes(), (std::vector<std::uint32_t>{1, 0, 1, 0}));
    EXPECT_LT(report.callstacks.front().may_leak().bytes,
              report.callstacks.back().may_leak().bytes);
    EXPECT_EQ(report.page_faults->stacks.front().process, 1U) << "fewer faults";
}

// Nobody knows whether they are live: their call stacks stay, and so do their numbers.
TEST_F(FillReport, HasWhatWasSetAside) {
    tracker.forget_live(at(300));
    const Report report = fill();
    ASSERT_EQ(report.callstacks.size(), 2U);
    EXPECT_EQ(report.callstacks[0].live, BlockCount{});
    EXPECT_EQ(report.totals.live, BlockCount{});
    EXPECT_EQ(report.totals.untracked, (BlockCount{201, 2000 + (1 << 20)}));
}

TEST_F(FillReport, WithoutIntervalsThereIsNoVerdict) {
    tracker.intervals().stop(at(300));
    while (tracker.intervals().drop_oldest()) {
    }
    const Report report = fill();
    EXPECT_FALSE(report.callstacks[0].judgement);
    EXPECT_TRUE(report.callstacks[0].intervals.empty());
}

} // namespace
} // namespace memleax
