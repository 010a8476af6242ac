// SPDX-License-Identifier: GPL-3.0-or-later
// Tracer and target share one CPU, as on a small board or in a container that has but one: who
// looks out for the other then keeps it from getting there.
#include <sched.h>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

/// A signal's frame has 1 KiB, or 4 with AVX-512.
constexpr std::int64_t kMostStackBytes = std::int64_t{96} * 1024;

/// The test's own, which its children inherit.
class OneCpu : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
        int cpu = 0;
        while (!CPU_ISSET(cpu, &before_)) {
            ++cpu;
        }
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    }
    void TearDown() override { sched_setaffinity(0, sizeof before_, &before_); }

  private:
    cpu_set_t before_{};
};

TEST_F(OneCpu, ExactCountsAndACleanLeave) {
    for (int i = share_of(10); i > 0; --i) {
        Fixture fixture("threads16");
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// Each stop is served so late that the next signal is there before the thread has executed the
// first instruction of the last one's handler, which does not block it.
TEST_F(OneCpu, SignalsFasterThanStopsDoNotFillTheStack) {
    Fixture fixture("nodefer");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 19), 0); // for memleax, from here on
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    EXPECT_LT(answer.counts.at("deepest"), kMostStackBytes);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// The same at any moment of an attach and of leaving.
TEST_F(OneCpu, NorDoThoseThatComeWhileItComesAndGoes) {
    Fixture fixture("nodefer");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 19), 0);
    fixture.process().send("go");
    for (int i = 0; i < share_of(4); ++i) {
        Memleax memleax({"-F", "json", "-t", "0.02", std::to_string(fixture.pid())});
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
    }
    const FixtureAnswer answer = read_answer(fixture.process());
    EXPECT_THAT(answer.failures, IsEmpty());
    EXPECT_LT(answer.counts.at("deepest"), kMostStackBytes);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
