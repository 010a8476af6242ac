// SPDX-License-Identifier: GPL-3.0-or-later
// SIGSTOP, SIGTSTP and SIGCONT mean to a watched process what they mean to any other.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

/// The signal that stopped our child; 0 if it ended instead. A tracer does not take that from us.
int wait_for_stop(const Fixture& fixture) {
    int status = 0;
    if (::waitpid(fixture.pid(), &status, WUNTRACED) != fixture.pid() || !WIFSTOPPED(status)) {
        return 0;
    }
    return WSTOPSIG(status);
}

/// All threads are stopped, or will be without anybody's help: one that is let go of in a
/// group-stop runs through the kernel for a moment.
void expect_all_stopped(pid_t pid) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        const auto threads = take_snapshot(pid).threads;
        if (std::all_of(threads.begin(), threads.end(),
                        [](const auto& entry) { return entry.second.stopped; })) {
            return;
        }
        if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error("it does not stay stopped");
        }
        ::poll(nullptr, 0, 1);
    }
}

Memleax watch(const Fixture& fixture) {
    return Memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
}

TEST(JobControl, StopsAndContinuesWhileWatched) {
    Fixture fixture("sigstop");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax = watch(fixture);
    memleax.wait_until_watching();
    fixture.process().send("go");
    constexpr int kStops = 6;
    for (int i = 0; i < kStops; ++i) {
        EXPECT_EQ(wait_for_stop(fixture), i % 3 == 1 ? SIGTSTP : SIGSTOP) << i;
        expect_all_stopped(fixture.pid());
        fixture.process().signal(SIGCONT);
    }
    const FixtureAnswer answer = read_answer(fixture.process());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(answer.counts.at("stops"), kStops);
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// A call that was made by way of our code waits for it, and cannot return. The thread that has it
// is not known to be in the allocator.
TEST(JobControl, WhoHasTheAllocatorsLockGoesOnUntilOthersAreOut) {
    Fixture fixture("lock_holder");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "1000", "--log", "debug", std::to_string(fixture.pid())});
    if (engine_under_test() == "int3") {
        memleax.wait_until_watching();
    } else {
        memleax.wait_until_patched();
    }
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const FixtureAnswer answer = fixture.ask("hold");
    fixture.process().signal(SIGSTOP);
    ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
    // Only one that runs sees it.
    std::uint64_t end = 1;
    const iovec local{&end, sizeof end};
    const auto address = static_cast<std::uintptr_t>(answer.counts.at("word"));
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is the other process's
    const iovec remote{reinterpret_cast<void*>(address), sizeof end};
    ASSERT_EQ(process_vm_writev(fixture.pid(), &local, 1, &remote, 1, 0),
              static_cast<ssize_t>(sizeof end));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_all_stopped(fixture.pid());
    fixture.process().signal(SIGCONT);
    EXPECT_THAT(fixture.ask("end").failures, IsEmpty());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty())
        << result.errors;
    EXPECT_EQ(fixture.quit(), 0);
}

class Stopped : public ::testing::TestWithParam<const char*> {};

TEST_P(Stopped, IsWatchedAndCountedFromItsSigcontOn) {
    Fixture fixture(GetParam());
    fixture.process().signal(SIGSTOP);
    ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
    Memleax memleax = watch(fixture);
    memleax.wait_until_watching();
    fixture.process().send("go");
    expect_all_stopped(fixture.pid());
    fixture.process().signal(SIGCONT);
    const FixtureAnswer answer = read_answer(fixture.process());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_P(Stopped, StaysSoWhenItIsLeft) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    fixture.process().signal(SIGSTOP);
    ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
    for (int i = 0; i < 3; ++i) {
        Memleax memleax = watch(fixture);
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_all_stopped(fixture.pid());
    }
    fixture.process().signal(SIGCONT);
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_P(Stopped, WhileWatchedStaysSoWhenItIsLeft) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    for (int i = 0; i < 5; ++i) {
        Memleax memleax = watch(fixture);
        memleax.wait_until_watching();
        fixture.process().signal(SIGSTOP);
        ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_all_stopped(fixture.pid());
        fixture.process().signal(SIGCONT);
    }
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// A storm of both signals while memleax comes and goes: its parent sees each stop and each
// continuation, and what was sent last holds.
TEST_P(Stopped, AndContinuedAllTheTimeIsSeenByItsParent) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    constexpr int kVisits = 8;
    constexpr int kStopsInVisit = 25;
    std::string errors;
    for (int i = 0; i < share_of(kVisits) && !HasFailure(); ++i) {
        Memleax memleax = watch(fixture);
        for (int stop = 0; stop < kStopsInVisit && !HasFailure(); ++stop) {
            fixture.process().signal(SIGSTOP);
            ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
            fixture.process().signal(SIGCONT);
            int status = 0;
            ASSERT_EQ(::waitpid(fixture.pid(), &status, WCONTINUED), fixture.pid());
            EXPECT_TRUE(WIFCONTINUED(status)) << status;
        }
        memleax.wait_until_watching();
        fixture.process().signal(SIGSTOP);
        memleax.interrupt();
        ASSERT_EQ(wait_for_stop(fixture), SIGSTOP);
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        errors += result.errors;
        expect_all_stopped(fixture.pid());
        fixture.process().signal(SIGCONT);
    }
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty())
        << errors;
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Stopped, ::testing::Values("recursion", "threads16"),
                         [](const auto& instance) { return std::string(instance.param); });

} // namespace
} // namespace memleax::testing
