// SPDX-License-Identifier: GPL-3.0-or-later
// A child process that shares the target's memory, and so its breakpoints, and lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

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

} // namespace
} // namespace memleax::testing
