// SPDX-License-Identifier: GPL-3.0-or-later
// All the signals of a watched process arrive, and none is added (fixtures/signal_kinds.c counts).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

TargetSnapshot snapshot_of(const Fixture& fixture) {
    return take_snapshot(fixture.pid(), {"receiver", "waiter"});
}

class SignalKinds : public ::testing::TestWithParam<bool> {
  protected:
    static std::vector<std::string> arguments(int queued) {
        std::vector<std::string> result{std::to_string(queued)};
        if (GetParam()) {
            result.emplace_back("blocked");
        }
        return result;
    }
};

TEST_P(SignalKinds, ArriveWhileWatched) {
    Fixture fixture("signal_kinds", arguments(share_of(10'000)));
    const TargetSnapshot before = snapshot_of(fixture);
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, snapshot_of(fixture), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

/// While it works, memleax visits it so many times (without MEMLEAX_STRESS_COUNT) for up to so
/// long.
void come_and_go(Fixture* fixture, int visits, int most_milliseconds) {
    const TargetSnapshot before = snapshot_of(*fixture);
    fixture->process().send("spin");
    ASSERT_EQ(fixture->process().read_line(), "spinning");
    Stress stress(visits);
    while (stress.next()) {
        Memleax memleax({"-F", "json", "-t",
                         std::to_string(0.001 * stress.number_to(most_milliseconds)),
                         std::to_string(fixture->pid())});
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
    }
    EXPECT_THAT(fixture->ask("stop").failures, IsEmpty());
    EXPECT_THAT(differences(before, snapshot_of(*fixture), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture->quit(), 0);
}

TEST_P(SignalKinds, ArriveWhileWeComeAndGo) {
    Fixture fixture("signal_kinds", arguments(share_of(1000)));
    come_and_go(&fixture, 15, 60);
}

INSTANTIATE_TEST_SUITE_P(Traps, SignalKinds, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "blocked" : "own"; });

// One that is raised at the same moment as a thread is borrowed for our system calls.
TEST(Exceptions, ArriveOnceWhileWeComeAndGo) {
    Fixture fixture("faulter");
    come_and_go(&fixture, 25, 20);
}

// SIGTRAP is blocked only until that handler returns: found blocked afterwards, it would make the
// process's next breakpoint of its own kill it.
class OwnTrapHandler : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnTrapHandler, IsWhereTheProcessIsWhenWeCome) {
    Fixture fixture("own_trap");
    fixture.process().send(GetParam());
    ASSERT_EQ(fixture.process().read_line(), "in handler");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send("leave it");
    ASSERT_EQ(fixture.process().read_line(), "out");
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Trap, OwnTrapHandler,
                         ::testing::Values("stay", "stay step", "stay sent", "stay plain"),
                         [](const auto& instance) {
                             return instance.param == "stay"        ? "OfABreakpoint"
                                    : instance.param == "stay step" ? "OfAStep"
                                    : instance.param == "stay sent" ? "Sent"
                                                                    : "SentWithoutSiginfo";
                         });

// 100,000 of them.
TEST(QueuedSignals, KeepTheirNumberOrderAndPayloads) {
    Fixture fixture("signal_kinds", {std::to_string(share_of(100'000))});
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

class PendingSignals : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(PendingSignals, StayPending) {
    Fixture fixture("pending_signals", GetParam());
    EXPECT_THAT(fixture.go().failures, IsEmpty()); // its threads' arenas are there now
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Stress stress(5);
    while (stress.next()) {
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = stress.number_to(3) > 1 ? fixture.go() : FixtureAnswer();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    }
    EXPECT_THAT(fixture.ask("take").failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, PendingSignals,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"trap"}),
                         [](const auto& instance) {
                             return instance.param.empty() ? "AllKinds" : "SigtrapToo";
                         });

} // namespace
} // namespace memleax::testing
