// SPDX-License-Identifier: GPL-3.0-or-later
// Functions at whose entry a jump of the inline engine would be in somebody's way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

// Each of them ended the program, which see.
TEST(PatchedEntries, WhatIsEnteredBehindItsBeginKeepsIt) {
    Fixture fixture("inner_entries");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000", "--prefix",
                     "cold_", std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(answer.failures, IsEmpty());
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
