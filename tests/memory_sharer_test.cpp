// SPDX-License-Identifier: GPL-3.0-or-later
// A child process that shares the target's memory, and so its breakpoints, and lives on.
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

Memleax watch(const Fixture& fixture) {
    return Memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
}

TEST(MemorySharer, FromBeforeTheAttachIsWatchedToo) {
    Fixture fixture("sharer");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax = watch(fixture);
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(MemorySharer, BornWhileWatchedIsWatchedAndLeft) {
    Fixture fixture("sharer");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax = watch(fixture);
    memleax.wait_until_watching();
    fixture.ask("anew");
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

/// One whose birth the kernel tells no tracer of (CLONE_UNTRACED); the fixture's argument says
/// whether it is a thread of the process.
class HiddenSharer : public ::testing::TestWithParam<const char*> {
  protected:
    Fixture fixture_{"sharer", {GetParam()}};
};

// The hits of a child that nobody traces seem to say that memleax is dead.
TEST_P(HiddenSharer, IsToldOfAndWatchedFromThenOn) {
    const TargetSnapshot before = take_snapshot(fixture_.pid());
    Memleax memleax = watch(fixture_);
    memleax.wait_until_watching();
    fixture_.ask("anew");
    FixtureAnswer earlier = fixture_.ask("call");
    ASSERT_TRUE(memleax.process().find_error_line("CLONE_UNTRACED")) << memleax.process().state();
    FixtureAnswer answer = fixture_.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    // What was live at the warning is set aside.
    for (auto& [function, leak] : answer.truth) {
        const Leak& set_aside = earlier.truth[function];
        leak = {leak.blocks - set_aside.blocks, leak.bytes - set_aside.bytes};
    }
    expect_truth(result.json(), answer);
    EXPECT_EQ(result.json()["session"]["events"]["double_free"], 0);
    EXPECT_THAT(differences(before, take_snapshot(fixture_.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture_.go().failures, IsEmpty());
    EXPECT_EQ(fixture_.quit(), 0);
}

// One after the other, while memleax comes and goes.
TEST_P(HiddenSharer, IsLeftAsItWas) {
    constexpr int kMostWatchedUs = 50'000;
    const TargetSnapshot before = take_snapshot(fixture_.pid());
    Stress stress(5);
    while (stress.next()) {
        fixture_.process().send("spin");
        ASSERT_EQ(fixture_.process().read_line(), "spinning");
        Memleax memleax = watch(fixture_);
        memleax.wait_until_watching();
        std::this_thread::sleep_for(std::chrono::microseconds(stress.number_to(kMostWatchedUs)));
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json()["session"]["events"]["double_free"], 0);
        EXPECT_THAT(fixture_.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture_.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HiddenSharer, ::testing::Values("untraced", "thread"),
                         [](const auto& row) { return std::string(row.param); });

// Each look reads all of /proc, while the others' stops wait.
TEST(MemorySharer, HiddenAndTracedBySomebodyElseIsLookedForLessAndLessOften) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kTime(600);
    constexpr int kLooksToPause = 12; // to a pause of 1 s, and at the leave
    Fixture fixture("sharer", {"traced"});
    Memleax memleax({"--log", "debug", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.ask("busy");
    const auto begin = Clock::now();
    while (Clock::now() - begin < kTime) { // the others' stops are when it is looked
        EXPECT_THAT(fixture.ask("call").failures, IsEmpty());
    }
    EXPECT_THAT(fixture.ask("rest").failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(Clock::now() - begin);
    EXPECT_EQ(result.status, 0) << result.errors;
    int looks = 0;
    for (std::size_t at = 0;
         (at = result.errors.find("cannot watch process", at)) != std::string::npos; ++at) {
        ++looks;
    }
    EXPECT_GE(looks, 3) << result.errors;
    EXPECT_LE(looks, kLooksToPause + seconds.count());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// It is stopped just before our handler's first instruction, most probably.
TEST(MemorySharer, HiddenAndStoppedAtABreakpointIsMovedOut) {
    Fixture fixture("sharer", {"untraced"});
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Stress stress(3);
    while (stress.next()) {
        Memleax memleax = watch(fixture);
        memleax.wait_until_watching();
        const auto child = static_cast<pid_t>(fixture.ask("busy").counts.at("child"));
        ASSERT_EQ(kill(child, SIGSTOP), 0);
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        ASSERT_EQ(kill(child, SIGCONT), 0);
        EXPECT_THAT(fixture.ask("rest").failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
