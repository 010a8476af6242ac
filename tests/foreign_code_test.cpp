// SPDX-License-Identifier: GPL-3.0-or-later
// Code of another instruction set: 32-bit programs, which a watched process may execute, and 64-bit
// ones in a 32-bit code segment. Neither is watched, nor harmed.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;

int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class ThirtyTwoBits : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!is_built("program32")) {
            GTEST_SKIP() << "the compiler makes no 32-bit programs";
        }
        ChildProcess target({"/bin/sh", "-c", "exec \"$0\"", fixture_path("program32")});
        if (!target.read_line()) { // a kernel without IA32_EMULATION, or a hypervisor that has none
            constexpr int kCannotExecute = 126;
            ASSERT_EQ(exit_status(target.wait_for_end()), kCannotExecute);
            GTEST_SKIP() << "this machine executes no 32-bit programs";
        }
    }
    /// The program works: it answers each line, and ends with 0 when there are no more.
    static void expect_to_work(ChildProcess* shell) {
        shell->send("go");
        EXPECT_EQ(shell->read_line(), "done");
        shell->close_input();
    }
};

TEST_F(ThirtyTwoBits, AreRefused) {
    ChildProcess target({fixture_path("program32")});
    ASSERT_EQ(target.read_line(), "ready");
    Memleax memleax({std::to_string(target.pid())});
    const auto result = memleax.finish();
    EXPECT_EQ(exit_status(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("32-bit"));
    expect_to_work(&target);
    EXPECT_EQ(exit_status(target.wait_for_end()), 0);
}

TEST_F(ThirtyTwoBits, AreLetGoOfWhenTheProcessExecutesThem) {
    // With SIGTRAP ignored, too: that is put back in the new program, if a call can be made there.
    for (const std::string trap : {"-", "''"}) {
        ChildProcess target({"/bin/sh", "-c", "trap " + trap + " TRAP; read line; exec \"$0\"",
                             fixture_path("program32")});
        Memleax memleax({std::to_string(target.pid())});
        memleax.wait_until_watching();
        target.send("execute it");
        ASSERT_EQ(target.read_line(), "ready") << trap;
        const auto result = memleax.finish();
        EXPECT_EQ(exit_status(result.status), 1);
        EXPECT_THAT(result.errors, HasSubstr("32-bit"));
        EXPECT_THAT(result.output, HasSubstr("the watching failed")); // what was seen so far
        expect_to_work(&target);
        EXPECT_EQ(exit_status(target.wait_for_end()), 0) << trap;
    }
}

// A shell's children by fork, and those that it makes by vfork, if it does.
TEST_F(ThirtyTwoBits, AreLeftAloneAsChildren) {
    for (const char* follow : {"--follow-forks", "--quiet"}) {
        ChildProcess target({"/bin/sh", "-c", "trap '' TRAP; read line; \"$0\"; echo status $?",
                             fixture_path("program32")});
        Memleax memleax({follow, std::to_string(target.pid())});
        memleax.wait_until_watching();
        target.send("execute it");
        ASSERT_EQ(target.read_line(), "ready") << follow;
        expect_to_work(&target);
        EXPECT_EQ(target.read_line(), "status 0") << follow;
        EXPECT_EQ(exit_status(target.wait_for_end()), 0);
        const auto result = memleax.finish();
        EXPECT_EQ(exit_status(result.status), 0) << result.errors;
    }
}

TEST_F(ThirtyTwoBits, OfACommandLineAreRefusedAndRun) {
    Memleax memleax({"--", fixture_path("program32")});
    EXPECT_EQ(memleax.process().read_line(), "ready");
    expect_to_work(&memleax.process());
    const auto result = memleax.finish();
    EXPECT_EQ(exit_status(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("32-bit"));
}

// Its registers are not ours to set: no call can be made there.
TEST(ForeignCode, AThreadInA32BitSegmentIsLeftAlone) {
    if (!is_built("segment32")) {
        GTEST_SKIP() << "not on this CPU";
    }
    ChildProcess target({fixture_path("segment32")});
    ASSERT_EQ(target.read_line(), "computing");
    Memleax memleax({std::to_string(target.pid())});
    const auto result = memleax.finish();
    EXPECT_EQ(exit_status(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("another instruction set"));
    target.signal(SIGTERM);
    EXPECT_EQ(target.read_line(), "whole");
    EXPECT_EQ(exit_status(target.wait_for_end()), 0);
}

} // namespace
} // namespace memleax::testing
