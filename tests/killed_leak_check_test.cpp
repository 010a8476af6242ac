// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed at each system call of a leak check that has to do with the target: it is as it
// was. By strace, which has to be here.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

/// True: it was killed at the `count`th `call` of one of its threads. False: none has so many.
bool check_and_kill(pid_t target, const std::string& call, int count) {
    std::vector<std::string> command{
        "strace",    "-f", "-o",
        "/dev/null", "-e", fmt::format("inject={}:signal=SIGKILL:when={}", call, count)};
    const auto memleax = memleax_command();
    command.insert(command.end(), memleax.begin(), memleax.end());
    command.insert(command.end(), {"--leak-check", std::to_string(target)});
    ChildProcess strace(command);
    const int status = strace.wait_for_end(); // strace ends as it has
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

class KilledLeakCheck : public ::testing::TestWithParam<const char*> {};

TEST_P(KilledLeakCheck, LeavesTheTargetAsItWas) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not installed";
    }
    Fixture fixture("lost_blocks");
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    int kills = 0;
    for (int count = 1; check_and_kill(fixture.pid(), GetParam(), count); ++count) {
        ++kills;
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty())
            << GetParam() << " " << count;
    }
    EXPECT_GT(kills, 3);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(At, KilledLeakCheck, ::testing::Values("ptrace", "process_vm_readv"),
                         [](const auto& param) { return std::string(param.param); });

} // namespace
} // namespace memleax::testing
