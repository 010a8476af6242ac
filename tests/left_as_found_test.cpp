// SPDX-License-Identifier: GPL-3.0-or-later
// What a target notices of a watch, and what is left of it: nothing.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

Memleax attach_to(pid_t pid) {
    return Memleax({"-F", "json", "-e", "1000", std::to_string(pid)});
}

class LeftAsFound : public ::testing::TestWithParam<std::string> {};

// Nothing happens in the target, so each line of its maps must be the same.
TEST_P(LeftAsFound, AnIdleTargetIsUntouched) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (int i = 0; i < 3; ++i) {
        Memleax memleax = attach_to(fixture.pid());
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(live_leaks(result.json()), IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LeftAsFound,
                         ::testing::Values("alloc_all-O2-nofp-pie", "alloc_all-O0-fp-nopie",
                                           "threads16", "signals"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

class Spinning : public ::testing::TestWithParam<std::string> {};

// Comes and goes while the target allocates on all its threads. The target is quiet only before
// and after; what it checks itself (its own blocks, lost signals) holds all the time.
TEST_P(Spinning, ComesAndGoesWhileTheTargetWorks) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    std::uint64_t seen = 0;
    for (int i = 0; i < 10; ++i) {
        // In turn: left at once, while all is still new to it; and after a while of watching.
        Memleax memleax(
            {"-F", "json", "-t", i % 2 == 0 ? "100" : "0.3", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const auto result = i % 2 == 0 ? memleax.interrupt_and_finish() : memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        const auto session = result.json().at("session");
        EXPECT_EQ(session.at("end_reason"), i % 2 == 0 ? "user" : "time");
        seen += session.at("events").at("alloc").get<std::uint64_t>();
    }
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_GT(seen, 0U);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Spinning,
                         ::testing::Values("alloc_all_cxx-O2-nofp-pie", "threads16",
                                           "cross_thread_free", "thread_churn", "signals", "forker",
                                           "longjmp_exceptions"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// Threads that sleep in read, futex, epoll_wait, accept, nanosleep and others sleep through it.
TEST(BlockedSyscalls, NobodyIsWoken) {
    Fixture fixture("blocked_syscalls");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (int i = 1; i <= 3; ++i) {
        Memleax memleax = attach_to(fixture.pid());
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.ask("allocate");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_EQ(live_leaks(result.json()), (Leaks{{"block_beside_sleepers", {1, 123}}}));
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    const FixtureAnswer woken = fixture.go();
    EXPECT_THAT(woken.failures, IsEmpty());
    EXPECT_THAT(woken.counts, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
