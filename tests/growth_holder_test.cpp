// SPDX-License-Identifier: GPL-3.0-or-later
// A call stack that grows has in its verdict's reason who holds most of its blocks. The heap is a
// fixture's; the account of it is made up here, as a verdict takes minutes.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "memleax/base/clock.hpp"
#include "memleax/report/fill_report.hpp"
#include "memleax/report/verdict_text.hpp"
#include "memleax/session/heap_view.hpp"
#include "memleax/target/remote_memory.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

/// "session 0x...": the addresses of such lines, the last one first.
std::vector<RemoteAddr> addresses(const FixtureAnswer& answer, const std::string& word) {
    std::vector<RemoteAddr> result;
    for (const std::string& line : answer.other) {
        if (line.starts_with(word + " ")) {
            result.emplace_back(std::stoull(line.substr(word.size() + 1), nullptr, 16));
        }
    }
    return {result.rbegin(), result.rend()};
}

class GrowthHolder : public ::testing::Test {
  protected:
    void SetUp() override {
        fixture_.emplace("held_blocks");
        pid_ = Tid(fixture_->pid());
        for (int i = 0; i < kRounds; ++i) { // three sessions each
            fixture_->go();
        }
        fixture_->ask("park");
        fixture_->ask("park");
        list_ = fixture_->ask("list");
    }

    /// One of these was allocated every so many seconds, the last one just now.
    StackId allocate(std::uint64_t pc, const std::vector<RemoteAddr>& blocks, std::int64_t s) {
        return tracker_.with([&](Tracker& tracker) {
            const StackId stack =
                tracker.intern(std::vector{FrameAddress::exact(CodeAddr(pc))}, StackEnd::outermost);
            std::int64_t age = static_cast<std::int64_t>(blocks.size()) * s;
            for (const RemoteAddr block : blocks) {
                age -= s;
                const MonotonicNs time(now_.value() - age * kNsPerSecond);
                tracker.expire(time, SIZE_MAX);
                tracker.on_event({.kind = EventKind::alloc,
                                  .tid = pid_,
                                  .address = block,
                                  .size = 100,
                                  .old_address = {},
                                  .stack = stack,
                                  .time = time});
            }
            return stack;
        });
    }

    /// The only call stack's in the report.
    Judgement judgement() {
        auto memory = RemoteMemory::open(pid_);
        EXPECT_TRUE(memory);
        ModuleMap modules(pid_, *memory);
        EXPECT_TRUE(modules.refresh());
        ModuleMailbox mailbox;
        mailbox.put(modules);
        StackNames names(mailbox, tracker_, {});
        auto snapshot = take_heap_snapshot(pid_, {.details = true});
        if (!snapshot || !snapshot->complete) {
            ADD_FAILURE() << (snapshot ? snapshot->why : snapshot.error().message());
            return {};
        }
        HeapView heap(*std::move(snapshot), pid_, tracker_, names);
        Report report;
        fill_report(
            tracker_.snapshot(now_), begin_, [](StackId) { return Backtrace{}; },
            [](const Backtrace&) { return true; }, Wrappers(), &report, heap.stack_findings());
        EXPECT_EQ(report.callstacks.size(), 1U);
        return report.callstacks.front().judgement.value_or(Judgement{});
    }

    static constexpr int kRounds = 20;
    std::optional<Fixture> fixture_;
    Tid pid_;
    FixtureAnswer list_;
    MonotonicNs now_ = monotonic_now();
    MonotonicNs begin_{now_.value() - 3600 * kNsPerSecond};
    std::atomic<bool> abandoned_ = false;
    SharedTracker tracker_{{}, abandoned_};
};

TEST_F(GrowthHolder, HoldsMostOfTheBlocksOfACallStackThatGrows) {
    auto sessions = addresses(list_, "session");
    ASSERT_EQ(sessions.size(), 58U);
    const auto parked = addresses(list_, "parked");
    ASSERT_EQ(parked.size(), 2U);
    sessions.insert(sessions.end(), parked.begin(), parked.end());
    allocate(1, sessions, 3);
    const Judgement growing = judgement();
    EXPECT_EQ(growing.verdict, Verdict::growing);
    EXPECT_EQ(growing.held_by, (HeldBy{58, 60, "shop::g_sessions, held_blocks.cpp"}));
    EXPECT_TRUE(why(growing).ends_with("; 58 of 60 held by shop::g_sessions, held_blocks.cpp"))
        << why(growing);
    EXPECT_EQ(fixture_->quit(), 0);
}

TEST_F(GrowthHolder, HoldsWhatLeaks) {
    allocate(1, addresses(list_, "session"), 30);
    const Judgement leaking = judgement();
    EXPECT_EQ(leaking.verdict, Verdict::leaking);
    EXPECT_EQ(leaking.held_by, (HeldBy{58, 58, "shop::g_sessions, held_blocks.cpp"}));
    EXPECT_EQ(fixture_->quit(), 0);
}

TEST_F(GrowthHolder, IsNamedForWhatGrowsOnly) {
    allocate(1, addresses(list_, "entry"), 0); // all of them at once
    const Judgement early = judgement();
    EXPECT_EQ(early.verdict, Verdict::too_early);
    EXPECT_FALSE(early.held_by);
    EXPECT_EQ(fixture_->quit(), 0);
}

} // namespace
} // namespace memleax::testing
