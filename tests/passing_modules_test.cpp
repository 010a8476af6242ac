// SPDX-License-Identifier: GPL-3.0-or-later
// Modules are read before anybody is stopped. One that goes then leaves its place to what is ours.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

TEST(PassingModules, TakeNothingOfOursWithThem) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    Fixture fixture("passing_module");
    // It is to say little, as nobody reads that in time.
    CommandLine command{{"strace", "-f", "-Z", "-b", "execve", "-e", "trace=ptrace", "-e",
                         "signal=SIGSTOP", "-e", "inject=ptrace:signal=SIGSTOP:when=1"}};
    for (const auto& words :
         {memleax_command(), {"-F", "json", "-e", "1000", std::to_string(fixture.pid())}}) {
        command.words.insert(command.words.end(), words.begin(), words.end());
    }
    Memleax memleax(command);
    ASSERT_TRUE(memleax.process().find_error_line("stopped by SIGSTOP"));
    EXPECT_THAT(fixture.go().failures, IsEmpty()); // the module goes
    const auto children = children_of(memleax.process().pid());
    ASSERT_EQ(children.size(), 1U);
    ASSERT_EQ(kill(*children.begin(), SIGCONT), 0);
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    ASSERT_EQ(kill(*children.begin(), SIGINT), 0);
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(live_leaks(result.json()), answer.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
