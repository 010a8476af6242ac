// SPDX-License-Identifier: GPL-3.0-or-later
// What memleax starts lets the guardian trace it (PR_SET_PTRACER): with Yama's ptrace_scope at 1 an
// ordinary user's process is traced by its ancestors only, and the guardian is none of these.
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter_support.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/spawn_attributes.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/tracer.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;

/// How it goes to start a program that ends at once if it lets `refused` (nothing: anybody) trace
/// it; empty: well. There is this guardian; 0: none.
std::string start_problem(pid_t guardian, std::optional<pid_t> refused) {
    std::string problem = "no filter";
    std::thread([&] { // the filter goes with it
        if (!end_at_set_ptracer(refused)) {
            return;
        }
        auto file = RecoveryFile::create();
        if (!file) {
            problem = file.error().message();
            return;
        }
        (*file)->set_guardian(guardian);
        Tracer tracer(file->get());
        SpawnAttributes inherited;
        getrlimit(RLIMIT_NOFILE, &inherited.open_files);
        getrlimit(RLIMIT_DATA, &inherited.data);
        auto target = Target::launch(tracer, {"/bin/true"}, inherited);
        problem = target ? "" : target.error().message();
        if (target) {
            const pid_t pid = (*target)->pid().value();
            target->reset(); // goes on by itself
            waitpid(pid, nullptr, __WALL);
        }
    })
        .join();
    return problem;
}

TEST(AllowedTracer, IsTheGuardian) {
    const pid_t guardian = getpid();
    EXPECT_THAT(start_problem(guardian, guardian), HasSubstr("ended before it was started"));
}

// Nor does it matter that a kernel without Yama knows no such call (EINVAL).
TEST(AllowedTracer, IsNobodyElse) {
    EXPECT_EQ(start_problem(getpid(), getppid()), "");
}

TEST(AllowedTracer, IsNobodyWithoutAGuardian) {
    EXPECT_EQ(start_problem(0, std::nullopt), "");
}

} // namespace
} // namespace memleax::testing
