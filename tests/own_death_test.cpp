// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed with SIGKILL, at any moment: the target lives, works on, and has its own bytes,
// signals and masks back as soon as the guardian says so.
//
// 500 times: MEMLEAX_STRESS_COUNT=20 own_death_test
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "arch.hpp"
#include "kill_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// From its start to a steady watch.
constexpr int kMostDelayUs = 60'000;

/// A memleax that is killed when a thread of its begins its `call`th ptrace call.
CommandLine killed_at_call(int call, const std::vector<std::string>& arguments) {
    CommandLine command{{"strace", "-f", "-b", "execve", "-o", "/dev/null", "-e",
                         fmt::format("inject=ptrace:signal=SIGKILL:when={}", call)}};
    for (const auto& words : {memleax_command(), arguments}) {
        command.words.insert(command.words.end(), words.begin(), words.end());
    }
    return command;
}

/// "survivor", which works while memleax comes and is killed.
class OwnDeath : public ::testing::TestWithParam<std::vector<std::string>> {
  protected:
    void start_working() {
        before_ = take_snapshot(fixture_.pid());
        fixture_.process().send("spin");
        ASSERT_EQ(fixture_.process().read_line(), "spinning");
    }
    /// Until the guardian, who has the same standard error, has ended.
    void check_survival(Memleax& memleax) {
        const auto result = memleax.finish();
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, SIGKILL);
        ASSERT_EQ(kill(fixture_.pid(), 0), 0);
        const FixtureAnswer answer = fixture_.ask("stop");
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_THAT(differences(before_, take_snapshot(fixture_.pid()), Meanwhile::worked),
                    IsEmpty());
    }

    Fixture fixture_{"survivor", GetParam()};

  private:
    TargetSnapshot before_;
};

TEST_P(OwnDeath, LeavesTheTargetAsItWas) {
    Stress stress(25);
    while (stress.next()) {
        start_working();
        Memleax memleax({"-q", "-e", "1000", std::to_string(fixture_.pid())});
        if (stress.number_to(4) == 1) {
            memleax.wait_until_watching();
        }
        kill_at_random_moment(memleax, stress, kMostDelayUs);
        check_survival(memleax);
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

// Between two ptrace calls: the one before has had its effect, and the next one has none. Attaching
// takes some 200 of them. The guardian is not traced (-b execve). A target's only thread is
// borrowed whatever it has been stopped for.
TEST_P(OwnDeath, AtAPtraceCallLeavesTheTargetAsItWas) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not installed";
    }
    Stress stress(10);
    while (stress.next()) {
        start_working();
        const int call = stress.number_to(300);
        SCOPED_TRACE(call);
        Memleax memleax(killed_at_call(call, {"-q", "-e", "1000", std::to_string(fixture_.pid())}));
        check_survival(memleax);
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Dispositions, OwnDeath,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"own-handler"},
                                           std::vector<std::string>{"alone"},
                                           std::vector<std::string>{"alone", "own-handler"}),
                         [](const auto& instance) {
                             return row_name("survivor", instance.param, {});
                         });

// A command's SIGTRAPs are its own from its first instruction on, also when we die while it is
// started, and while the shell executes it: it ends before the guardian gets to it.
TEST(OwnDeathOf, AStartLeavesTheCommandsSignalsAlone) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not installed";
    }
    Stress stress(60);
    while (stress.next()) {
        const int call = stress.number_to(120);
        SCOPED_TRACE(call);
        Memleax memleax(killed_at_call(call, {"-q", "-e", "1000", "--", "sh", "-c", "exec \"$0\"",
                                              fixture_path("trap_actions")}));
        for (const char* command : {"first", "trap", "second", "trap", "ignore", "trap", "quit"}) {
            memleax.process().send(command);
        }
        const std::string output = memleax.finish().output;
        // The fixture may not have been reached.
        EXPECT_THAT(output, Not(HasSubstr("fail")));
        EXPECT_THAT(output, AnyOf(IsEmpty(), EndsWith("done\n"))) << output;
    }
}

// The next visit finds nothing in its way.
TEST(OwnDeathOf, AWatchIsToldByTheGuardian) {
    Fixture fixture("survivor");
    Memleax killed({"-q", std::to_string(fixture.pid())});
    killed.wait_until_watching();
    killed.process().signal(SIGKILL);
    EXPECT_THAT(killed.finish().errors,
                HasSubstr(fmt::format("process {} is as it was before", fixture.pid())));
    Memleax next({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    next.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto result = next.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(live_leaks(result.json()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Stopped, it cannot end when it is told to.
TEST(OwnDeathOf, AStoppedGuardianIsNotWaitedFor) {
    Fixture fixture("survivor");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-q", "-o", "/dev/null", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const auto guardian = guardian_of(memleax);
    if (!guardian) {
        GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
    }
    ASSERT_EQ(kill(*guardian, SIGSTOP), 0);
    memleax.interrupt();
    EXPECT_TRUE(memleax.process().wait_for_exit());
    EXPECT_EQ(kill(*guardian, SIGKILL), 0);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// What the guardian has not put back yet the next one would take for the target's own, and leave it
// behind, after the pages that it leads to have gone.
TEST(OwnDeathOf, TheNextOneWaitsForTheGuardian) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    Fixture fixture("survivor");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const std::string pid = std::to_string(fixture.pid());
    for (const char* const next_engine : {"int3", "auto"}) {
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        Memleax memleax({"--log", "debug", "-e", "1000", pid});
        if (engine_under_test() == "inline") {
            memleax.wait_until_patched();
        } else {
            memleax.wait_until_watching();
        }
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        // When it has put back what is urgent, and is about to trace the process, on a thread.
        ChildProcess strace({"strace", "-f", "-e", "trace=clone,clone3", "-e",
                             "inject=clone,clone3:signal=SIGSTOP:when=1", "-p",
                             std::to_string(*guardian)});
        ASSERT_TRUE(strace.find_error_line(" attached"));
        memleax.process().signal(SIGKILL);
        ASSERT_TRUE(strace.find_error_line("stopped by SIGSTOP"));
        strace.signal(SIGINT); // it lets go of what is stopped
        strace.wait_for_end();
        Memleax next({"--log", "info", "--engine", next_engine, "-t", "0.2", pid});
        EXPECT_TRUE(next.process().find_error_line("is waited for")) << next.process().state();
        ASSERT_EQ(kill(*guardian, SIGCONT), 0);
        EXPECT_EQ(next.finish().status, 0);
        EXPECT_EQ(memleax.finish().status, SIGKILL);
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// What was ours is unmapped while memleax leaves, and the target may map something else there at
// once. Our death in between leaves it to a guardian that comes late.
TEST(OwnDeathOf, WhatTheTargetMapsWhereOursWasIsItsOwn) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    Fixture fixture("hole_filler");
    Stress stress(20);
    while (stress.next()) {
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        Memleax memleax({"-q", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        ASSERT_EQ(kill(*guardian, SIGSTOP), 0);
        const KillAtPtraceCall kill_at(memleax, stress.number_to(100));
        memleax.interrupt();
        usleep(100'000); // in which memleax comes to its end, and the target fills the holes
        ASSERT_EQ(kill(*guardian, SIGCONT), 0);
        (void)memleax.finish();
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// A thread that sleeps tells of no register but two.
TEST(OwnDeathOf, WhatNeighboursStacksHoldIsNoSleepersWayBack) {
    Fixture fixture("joined_stacks");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    EXPECT_GT(fixture.go().counts.at("frames"), 0);
    memleax.process().signal(SIGKILL);
    const auto result = memleax.finish();
    EXPECT_THAT(result.errors, Not(HasSubstr("stay mapped")));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

/// False if the guardian is not found; then neither is killed.
bool kill_with_its_guardian(Memleax& memleax) {
    const auto guardian = guardian_of(memleax);
    if (!guardian) {
        return false;
    }
    EXPECT_EQ(kill(*guardian, SIGKILL), 0);
    memleax.process().signal(SIGKILL);
    (void)memleax.finish();
    return true;
}

TEST(OwnDeathOf, AndOfItsGuardiansIsToldByTheNextMemleax) {
    Fixture fixture("survivor");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    if (!kill_with_its_guardian(memleax)) {
        GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
    }
    const auto next = Memleax({"-t", "10", std::to_string(fixture.pid())}).finish();
    EXPECT_EQ(next.output, "");
    EXPECT_THAT(next.errors, HasSubstr("a memleax that watched it was killed, and its guardian"));
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Nobody is left to give a thread its registers back, that executes a system call for memleax just
// then: it gets them by itself, all of them.
TEST(OwnDeathOf, AndOfItsGuardiansLeavesAllRegistersAsTheyWere) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    Stress stress(20);
    while (stress.next()) {
        Fixture fixture("all_registers");
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        Memleax memleax({"-q", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        ASSERT_EQ(kill(*guardian, SIGKILL), 0);
        const int call = stress.number_to(120);
        SCOPED_TRACE(call);
        const KillAtPtraceCall kill_at(memleax, call);
        memleax.interrupt();
        (void)memleax.finish();
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// Each hit goes by way of the handler then. The thread gets back from it with all registers, and
// without a system call, for which a seccomp filter may end the process.
void work_unattended(Fixture& fixture) {
    Memleax memleax({"-q", "--engine", "int3", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    if (!kill_with_its_guardian(memleax)) {
        GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
    }
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(OwnDeathOf, AndOfItsGuardiansLeavesAllRegistersAtEachHit) {
    Fixture fixture("kept_registers");
    work_unattended(fixture);
}

// The kernel takes the handler away at the hit of a thread that blocks SIGTRAP: it is put back at
// once, as each hit after our death would end the process.
TEST(OwnDeathOf, AHandlerThatABlockingThreadHasTakenAwayIsBackAtOnce) {
    Fixture fixture("blocking_births");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    for (int round = 0; round < 3; ++round) {
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        const auto info = try_read_process_info(Tid(fixture.pid()));
        ASSERT_TRUE(info);
        EXPECT_NE(info->caught_signals & signal_bit(SIGTRAP), 0U);
    }
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// Threads may share one (varnish's do): two hits at once, and each is where the other was.
TEST(OwnDeathOf, AndOfItsGuardiansNeedsNoAlternateStack) {
    Fixture fixture("shared_altstack");
    work_unattended(fixture);
}

TEST(OwnDeathOf, AndOfItsGuardiansTakesNoSystemCallAtAHit) {
    if (arch::trap_handler_code().unblocked_restorer == 0) {
        GTEST_SKIP() << "not on this CPU";
    }
    if (geteuid() != 0) {
        GTEST_SKIP() << "for root only";
    }
    Fixture fixture("confined", {"sigreturn_kills"});
    work_unattended(fixture);
}

// With --follow-forks all that are watched: a parent and three children, which are born and
// allocate meanwhile.
TEST(OwnDeathOf, AFamilyIsLeftAsItWas) {
    Stress stress(8);
    while (stress.next()) {
        Fixture fixture("family");
        const auto code = code_of(take_snapshot(fixture.pid()));
        Memleax memleax({"-q", "-f", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        fixture.process().send("outlive");
        std::vector<pid_t> family{fixture.pid()};
        const auto early = static_cast<std::size_t>(stress.number_to(4)); // children then
        bool killed = false;
        while (family.size() < 4) {
            if (!killed && family.size() == early) {
                kill_at_random_moment(memleax, stress, kMostDelayUs);
                killed = true;
            }
            const auto line = fixture.process().read_line();
            ASSERT_TRUE(line);
            if (line->starts_with("process ")) {
                family.push_back(std::atoi(line->c_str() + std::strlen("process ")));
            }
        }
        if (!killed) {
            kill_at_random_moment(memleax, stress, kMostDelayUs);
        }
        const auto result = memleax.finish();
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, SIGKILL);
        for (const pid_t pid : family) {
            const TargetSnapshot after = take_snapshot(pid);
            EXPECT_TRUE(code_of(after) == code) << "process " << pid;
            for (const auto& [tid, thread] : after.threads) {
                EXPECT_EQ(thread.tracer, 0);
            }
        }
        fixture.process().send("open");
        std::optional<std::string> line;
        while ((line = fixture.process().read_line()) && !line->starts_with("count unwell")) {
        }
        EXPECT_EQ(line, "count unwell 0");
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
