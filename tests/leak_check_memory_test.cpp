// SPDX-License-Identifier: GPL-3.0-or-later
// --leak-check of memory that is mapped in other ways than usual: what there holds a block, and no
// page that is made for the process by looking.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

/// How the picture of the process is taken.
class LeakCheckOfMemory : public ::testing::TestWithParam<const char*> {
  protected:
    static Memleax::Result check(pid_t pid) {
        return Memleax(
                   {"--leak-check", "-F", "json", "--snapshot", GetParam(), std::to_string(pid)})
            .finish();
    }
    static Leaks complete_check(pid_t pid) {
        const auto result = check(pid);
        EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0)
            << result.output << result.errors;
        return classes_of(result.json());
    }
    /// What its round has added is in the classes that it says.
    static void expect_the_truth_of(const std::string& program,
                                    const std::vector<std::string>& arguments = {}) {
        Fixture fixture(program, arguments);
        const Leaks before = complete_check(fixture.pid());
        const FixtureAnswer answer = fixture.go();
        EXPECT_EQ(difference(complete_check(fixture.pid()), before), answer.truth);
        EXPECT_EQ(fixture.quit(), 0);
    }
};

INSTANTIATE_TEST_SUITE_P(Snapshots, LeakCheckOfMemory, ::testing::Values("copy", "fork"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(LeakCheckOfMemory, APoolBelowTheStackOfAThreadThatHasEndedHoldsItsBlocks) {
    expect_the_truth_of("pool_below_stack");
}

} // namespace
} // namespace memleax::testing
