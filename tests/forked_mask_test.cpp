// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that blocks SIGTRAP has it unblocked while it is watched. Its forked children inherit
// that, and are to have the mask that the thread wants; and those of other threads theirs.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

class ForkedMask : public ::testing::TestWithParam<std::string> {};

TEST_P(ForkedMask, IsAsTheParentWantsIt) {
    Fixture fixture("blocking_forker", {GetParam()});
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-q", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    for (int round = 0; round < 3; ++round) { // also before the thread's first hit
        EXPECT_THAT(fixture.go().failures, IsEmpty());
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Of several, it is not known whose a child is before its parent tells.
TEST_P(ForkedMask, IsAsTheParentWantsItBesideAnotherProcess) {
    Fixture fixture("blocking_forker", {GetParam()});
    Fixture other("blocking_forker", {GetParam()});
    Memleax memleax(
        {"-q", "-e", "1000", std::to_string(fixture.pid()), std::to_string(other.pid())});
    memleax.wait_until_watching();
    for (int round = 0; round < 3; ++round) {
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_THAT(other.go().failures, IsEmpty());
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(fixture.quit(), 0);
    EXPECT_EQ(other.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Blocking, ForkedMask, ::testing::Values("all", "trap"),
                         [](const auto& instance) { return instance.param; });

} // namespace
} // namespace memleax::testing
