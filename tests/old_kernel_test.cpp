// SPDX-License-Identifier: GPL-3.0-or-later
// memleax with no other system calls than Linux 4.4 has: what is newer has a substitute, or is done
// without. (The target is not so limited: memleax could not watch it under a filter.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// memleax, with these arguments, on that kernel.
CommandLine on_old_kernel(const std::vector<std::string>& arguments) {
    CommandLine command{memleax_command()};
    command.words.insert(command.words.begin(), fixture_path("old_kernel"));
    command.words.insert(command.words.end(), arguments.begin(), arguments.end());
    return command;
}

class OldKernel : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (geteuid() != 0) {
            GTEST_SKIP() << "under a filter, for root only";
        }
    }
};

TEST_P(OldKernel, CountsAreExactAndNothingIsLeft) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax(on_old_kernel({"-F", "json", "-e", "1000", std::to_string(fixture.pid())}));
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("warning")));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    expect_truth(result.json(), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OldKernel,
                         ::testing::Values("realloc_chains", "threads16", "dlopen_plugin", "forker",
                                           "signals"),
                         [](const auto& instance) { return std::string(instance.param); });

// Its programs' ends are waited for without pidfd_open(2).
TEST(OldKernelPrompt, RunsPrograms) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "under a filter, for root only";
    }
    Fixture fixture("expiring");
    Memleax memleax(on_old_kernel({"-i", "-e", "1000", std::to_string(fixture.pid())}));
    for (const char* line : {"help | grep '^pause ' | tr a-z A-Z", "shell echo two-words | tr - _",
                             "shell exit 3", "quit"}) {
        memleax.process().send(line);
    }
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("PAUSE "));
    EXPECT_THAT(result.output, HasSubstr("two_words"));
    EXPECT_THAT(result.errors, Not(HasSubstr("cannot")));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
