// SPDX-License-Identifier: GPL-3.0-or-later
// While a thread is in a transfer that a stop would cut short, and memleax waits for its end, the
// other processes and threads work on.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// One that cannot be attached to yet, as its only thread is in a transfer that would be cut short.
class BesideATransfer : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(mover_.read_line(), "ready");
        ask("begin");
    }
    void ask(const char* command) {
        mover_.send(command);
        EXPECT_THAT(read_answer(mover_).failures, IsEmpty()) << command;
    }
    void end() {
        ask("go");
        mover_.send("quit");
        EXPECT_EQ(mover_.wait_for_end(), 0);
    }
    ChildProcess mover_{{fixture_path("transfers"), "write"}};
};

// It needs somebody who deals with its stops: at breakpoints, and for a signal.
TEST_F(BesideATransfer, WhatIsWatchedAlreadyWorksOn) {
    Fixture fixture("expiring");
    Memleax memleax(
        {"-F", "json", "-e", "1000", std::to_string(fixture.pid()), std::to_string(mover_.pid())});
    ASSERT_TRUE(memleax.process().find_error_line("waiting for its end"));
    ASSERT_EQ(kill(fixture.pid(), SIGWINCH), 0);
    fixture.ask("leak");
    fixture.ask("leak");
    ask("move"); // and nobody has given up
    ask("go");
    memleax.wait_until_watching();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("processes").size(), 2U);
    EXPECT_EQ(report.at("session").at("events").at("alloc"), 2);
    EXPECT_EQ(fixture.quit(), 0);
    mover_.send("quit");
    EXPECT_EQ(mover_.wait_for_end(), 0);
}

TEST_F(BesideATransfer, CtrlCIsHeard) {
    Fixture fixture("threads16");
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    Memleax memleax({"-F", "json", std::to_string(fixture.pid()), std::to_string(mover_.pid())});
    ASSERT_TRUE(memleax.process().find_error_line("waiting for its end"));
    memleax.interrupt();
    EXPECT_THAT(memleax.finish().errors, HasSubstr("of which memleax did not await the end"));
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
    end();
}

// As long as one of its threads is in a transfer that a stop would cut short, the others work on;
// each stops for a signal.
TEST(LeakCheckBesideATransfer, LetsOthersWorkOnWhileATransferIsWaitedFor) {
    for (const bool watched : {false, true}) {
        Fixture fixture("writer_beside");
        std::vector<std::string> arguments{"--leak-check", "-F", "json"};
        if (watched) {
            arguments.insert(arguments.end(), {"-t", "0.1"});
        }
        arguments.push_back(std::to_string(fixture.pid()));
        Memleax memleax(arguments);
        ASSERT_TRUE(memleax.process().find_error_line("waiting for its end")) << watched;
        ASSERT_EQ(tgkill(fixture.pid(), fixture.pid(), SIGWINCH), 0);
        fixture.ask("leak");
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr("cut short\n")));
        EXPECT_TRUE(classes_of(result.json()).contains("definite")) << result.output;
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
