// SPDX-License-Identifier: GPL-3.0-or-later
// The first thread ends, the process goes on: it is watched like any other.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_memory.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Memleax watch(const Fixture& fixture) {
    return Memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
}

bool leader_has_ended(const Fixture& fixture) {
    const auto info = try_read_process_info(Tid(fixture.pid()));
    return info && info->has_ended();
}

/// What pthread_exit allocates (libgcc_s, loaded for the unwinding) is not the fixture's.
void expect_fixtures_truth(const nlohmann::json& report, const FixtureAnswer& answer) {
    Leaks live = live_leaks(report);
    for (const auto& [function, leak] : answer.truth) {
        EXPECT_EQ(live[function], leak) << function;
    }
    EXPECT_THAT(answer.failures, IsEmpty());
    EXPECT_EQ(report.at("session").at("events").at("double_free"), 0);
}

TEST(Leaderless, IsAttachedToWatchedAndLeft) {
    Fixture fixture("leaderless", {"now"});
    ASSERT_TRUE(leader_has_ended(fixture));
    EXPECT_NE(living_thread(Tid(fixture.pid())), Tid(fixture.pid()));
    EXPECT_GT(try_read_resident_bytes(Tid(fixture.pid())), 0U);
    EXPECT_GT(read_process_memory(Tid(fixture.pid())).private_bytes, 0U);
    EXPECT_TRUE(try_read_resident_memory(Tid(fixture.pid())));
    FixtureAnswer so_far;
    for (int i = 0; i < 3; ++i) {
        const TargetSnapshot before = take_snapshot(fixture.pid());
        EXPECT_FALSE(before.mappings.empty());
        Memleax memleax = watch(fixture);
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        FixtureAnswer round = answer;
        for (const auto& [function, leak] : so_far.truth) {
            round.truth[function].blocks -= leak.blocks;
            round.truth[function].bytes -= leak.bytes;
        }
        so_far = answer;
        expect_truth(result.json(), round);
        EXPECT_EQ(result.json().at("target").at("exe"), fixture_path("leaderless"));
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Leaderless, FromTheMiddleOfAWatchOn) {
    Fixture fixture("leaderless");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax = watch(fixture);
    memleax.wait_until_watching();
    fixture.go();
    fixture.ask("exit");
    ASSERT_TRUE(leader_has_ended(fixture));
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.json().at("session").at("end_reason"), "user");
    expect_fixtures_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Nobody waits for its call to return, when we leave.
TEST(Leaderless, FromTheMiddleOfACallOn) {
    Fixture fixture("leaderless");
    Memleax memleax({"--log", "debug", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    fixture.ask("end_inside");
    ASSERT_TRUE(leader_has_ended(fixture));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("does not return")));
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Leaderless, ItsEndIsSeen) {
    for (const char* how : {"quit", "kill", "exec"}) {
        for (const bool before_attach : {true, false}) {
            Fixture fixture("leaderless", before_attach ? std::vector<std::string>{"now"}
                                                        : std::vector<std::string>{});
            Memleax memleax = watch(fixture);
            memleax.wait_until_watching();
            if (!before_attach) {
                fixture.ask("exit");
            }
            fixture.go();
            if (how == std::string("kill")) {
                fixture.process().signal(SIGKILL);
                fixture.process().wait_for_end();
            } else {
                fixture.process().send(how);
                EXPECT_EQ(fixture.process().wait_for_end(), 0);
            }
            const auto result = memleax.finish();
            EXPECT_EQ(result.status, 0) << result.errors;
            EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit") << how;
            EXPECT_EQ(result.errors.find("error"), std::string::npos) << result.errors;
        }
    }
}

TEST(Leaderless, IsVisitedWhileItWorks) {
    for (const bool before_attach : {true, false}) {
        Fixture fixture("leaderless", before_attach ? std::vector<std::string>{"now"}
                                                    : std::vector<std::string>{});
        const TargetSnapshot before = take_snapshot(fixture.pid());
        if (!before_attach) {
            fixture.ask("exit");
        }
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        for (int i = 0; i < 10; ++i) {
            Memleax memleax = watch(fixture);
            memleax.wait_until_watching();
            const auto result = memleax.interrupt_and_finish();
            EXPECT_EQ(result.status, 0) << result.errors;
        }
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
