// SPDX-License-Identifier: GPL-3.0-or-later
// Many blocks at one call stack: all of them expire, are counted exactly, and show as few lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ManyBlocks, AllExpire) {
    Fixture fixture("big_live", {"50000"});
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax(
        {"-F", "json", "-e", "0.001", "-m", "0", "-c", "0", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    expect_truth(report, answer);
    ASSERT_EQ(answer.truth.at("staying_block").blocks, 50000);
    const auto& totals = report.at("totals");
    EXPECT_EQ(totals.at("live_blocks"), 50000);
    // The last millisecond's may not have expired; nothing else is live.
    EXPECT_GT(totals.at("expired_blocks"), 0);
    EXPECT_LE(totals.at("expired_blocks"), 50000);
    EXPECT_EQ(report.at("session").at("end_reason"), "user");
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ManyBlocks, EndTheSessionAtALimit) {
    Fixture fixture("big_live", {"20000"});
    Memleax memleax({"-e", "0.001", "-m", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const auto result = memleax.finish(); // by itself
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("CallStack[1]: memory expires with 16 bytes, backtrace:"));
    EXPECT_THAT(result.output, HasSubstr("CallStack[1]: may-leak="));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
