// SPDX-License-Identifier: GPL-3.0-or-later
// The target changes the code that we have patched, or are to patch (fixtures/changed_code.c).
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

void ask_all(Fixture& fixture, const std::vector<std::string>& commands) {
    for (const std::string& command : commands) {
        EXPECT_THAT(fixture.ask(command).failures, IsEmpty()) << command;
    }
}

// What cannot be read by the process itself is to be put back all the same.
TEST(ExecuteOnlyCode, IsLeftAsItWas) {
    Fixture fixture("changed_code");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"go", "hide", "go", "fork"});
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    ask_all(fixture, {"go", "fork", "show"});
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ExecuteOnlyCode, IsPutBackByTheGuardian) {
    Fixture fixture("changed_code");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"go", "hide", "go"});
    memleax.process().signal(SIGKILL);
    EXPECT_EQ(memleax.finish().status, SIGKILL);
    ask_all(fixture, {"go", "fork", "show"});
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// It was taken for a program whose libraries are yet to come, and waited for.
TEST(ReplacedCode, IsRefusedWithTheReason) {
    Fixture fixture("changed_code");
    ask_all(fixture, {"replace", "go"});
    const auto result = Memleax({"-t", "1", std::to_string(fixture.pid())}).finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("its code in memory is not that of the file"));
    ask_all(fixture, {"go"});
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
