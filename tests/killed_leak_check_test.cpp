// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed at each system call of a leak check that has to do with the target, and at some
// of a look from the prompt: it is as it was. By strace, which has to be here.
#include <iostream>
#include <optional>
#include <ostream>
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
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

struct At {
    const char* call;
    const char* snapshot;
    const char* engine = nullptr; ///< by the prompt's `leaks`, while it is watched
};
void PrintTo(const At& at, std::ostream* out) {
    *out << at.call << ", " << at.snapshot;
}

/// Kills it at the `count`th such call of one of its threads, and returns what it, and its
/// guardian, which lives on (-b), have printed to stderr until their end. Nothing: no thread has so
/// many.
std::optional<std::string> check_and_kill(pid_t target, const At& at, int count) {
    std::vector<std::string> command{
        "strace", "-f",
        "-b",     "execve",
        "-o",     "/dev/null",
        "-e",     fmt::format("inject={}:signal=SIGKILL:when={}", at.call, count)};
    const auto memleax = memleax_command();
    command.insert(command.end(), memleax.begin(), memleax.end());
    command.insert(command.end(), {"--snapshot", at.snapshot, std::to_string(target)});
    if (at.engine == nullptr) {
        command.emplace_back("--leak-check");
    } else {
        command.insert(command.end(), {"-q", "-t", "0.01", "-x", "leaks", "--engine", at.engine});
    }
    ChildProcess strace(command);
    const int status = strace.wait_for_end(); // strace ends as it has
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? std::optional(strace.errors())
                                                              : std::nullopt;
}

class KilledLeakCheck : public ::testing::TestWithParam<At> {};

TEST_P(KilledLeakCheck, LeavesTheTargetAsItWas) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not installed";
    }
    Fixture fixture("lost_blocks");
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    int kills = 0;
    // Of a watching's calls most are those of coming and leaving, which others kill at.
    const int step = GetParam().engine != nullptr ? 5 : 1;
    for (int count = 1;; count += step) {
        const auto errors = check_and_kill(fixture.pid(), GetParam(), count);
        if (!errors) {
            break;
        }
        ++kills;
        SCOPED_TRACE(fmt::format("{}: {}", count, *errors));
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty());
        EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    }
    EXPECT_GE(kills, 1);
    std::cout << kills << " kills\n";
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(At, KilledLeakCheck,
                         ::testing::Values(At{"ptrace", "auto"}, At{"ptrace", "copy"},
                                           At{"ptrace", "fork"}, At{"process_vm_readv", "copy"},
                                           At{"process_vm_readv", "fork"}, At{"pread64", "fork"},
                                           At{"pidfd_send_signal", "fork"}, At{"wait4", "fork"},
                                           At{"ptrace", "fork", "int3"},
                                           At{"ptrace", "fork", "inline"},
                                           At{"pidfd_send_signal", "fork", "inline"}),
                         [](const auto& instance) {
                             const At& at = instance.param;
                             return std::string(at.call) + "_" + at.snapshot +
                                    (at.engine != nullptr ? fmt::format("_{}", at.engine) : "");
                         });

} // namespace
} // namespace memleax::testing
