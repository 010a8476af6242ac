// SPDX-License-Identifier: GPL-3.0-or-later
// The target sets SIGTRAP's action while it is watched (fixtures/trap_actions.c): its SIGTRAPs do
// what it has set, it sees nothing of ours, and after we have left its action is in force.
#include <algorithm>
#include <csignal>
#include <optional>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kill_support.hpp"
#include "leaks_support.hpp"
#include "program_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Commands = std::vector<std::string>;

/// What the target sets, one after the other, and which of its builds does: the C library's
/// sigaction is found in each.
class TrapAction : public ::testing::TestWithParam<std::tuple<const char*, Commands>> {
  protected:
    void SetUp() override {
        if (!is_built(program_)) {
            GTEST_SKIP() << program_ << " could not be built here";
        }
    }
    const std::string program_ = std::get<0>(GetParam());
    const Commands& set_ = std::get<1>(GetParam());
};

void ask_all(Fixture& fixture, const Commands& commands) {
    for (const std::string& command : commands) {
        EXPECT_THAT(fixture.ask(command).failures, IsEmpty()) << command;
    }
}

/// By sigaction's breakpoint, most probably, or by the one behind its jump.
void wait_until_followed(Memleax& memleax, int visit) {
    if (visit % 2 == 1 && engine_under_test() == "inline") {
        memleax.wait_until_patched();
    } else {
        memleax.wait_until_watching();
    }
}

/// In force: what is set last, and what comes of it in this process and others.
const Commands kUses{"trap", "fork", "spawn", "trap"};

TEST_P(TrapAction, IsFollowedWhileWatched) {
    Fixture fixture(program_);
    ask_all(fixture, set_);
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const int visits = share_of(5);
    for (int visit = 0; visit < visits && !HasFailure(); ++visit) {
        ask_all(fixture, {"default"});
        Memleax memleax(
            {"--log", "debug", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        wait_until_followed(memleax, visit);
        for (const std::string& command : set_) {
            ask_all(fixture, {command});
            ask_all(fixture, kUses);
        }
        FixtureAnswer answer = fixture.go();
        answer.truth["trap_actions_block"] = {1, 10};
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        ask_all(fixture, kUses);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_P(TrapAction, IsFollowedFromTheFirstInstructionAndInChildren) {
    Memleax memleax({"-F", "json", "-e", "1000", "-f", "--", fixture_path(program_)});
    ASSERT_EQ(memleax.process().read_line(), "ready");
    const auto ask = [&](const std::string& command) {
        memleax.process().send(command);
        EXPECT_THAT(read_answer(memleax.process()).failures, IsEmpty()) << command;
    };
    for (const std::string& command : set_) {
        ask(command);
        for (const std::string& use : kUses) {
            ask(use);
        }
    }
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_P(TrapAction, IsLeftAsItIsByOurDeath) {
    Fixture fixture(program_);
    ask_all(fixture, set_);
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const int visits = share_of(5);
    for (int visit = 0; visit < visits && !HasFailure(); ++visit) {
        ask_all(fixture, {"default"});
        Memleax memleax({"--log", "debug", "-e", "1000", std::to_string(fixture.pid())});
        wait_until_followed(memleax, visit);
        ask_all(fixture, set_);
        memleax.process().signal(SIGKILL);
        // Until the guardian is done sigaction tells of our handler.
        ask_all(fixture, {"go", "trap", "go", "fork unasked", "go"});
        EXPECT_EQ(memleax.finish().status, SIGKILL);
        ask_all(fixture, kUses);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Set, TrapAction,
    ::testing::Combine(::testing::Values("trap_actions", "trap_actions-static", "musl-trap_actions",
                                         "trap_actions-interposed"),
                       ::testing::Values(Commands{"first"}, Commands{"ignore"},
                                         Commands{"first", "ignore"}, Commands{"ignore", "first"},
                                         Commands{"first", "second"},
                                         Commands{"first", "second", "put back"})),
    [](const auto& instance) {
        return row_name(std::get<0>(instance.param), std::get<1>(instance.param), {});
    });

// With a guardian that cannot put the code back yet: until then our handler stays in force, else
// the target's would be given our breakpoints.
TEST(TrapActionDeath, InTheMidstOfTheCall) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    Stress stress(12);
    while (stress.next()) {
        Fixture fixture("trap_actions");
        Memleax memleax({"-q", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        const int call = stress.number_to(50);
        SCOPED_TRACE(call);
        ASSERT_EQ(kill(*guardian, SIGSTOP), 0);
        {
            const KillAtPtraceCall kill_at(memleax, call);
            for (const char* command : {"first unasked", "go", "trap"}) {
                fixture.process().send(command);
            }
            (void)memleax.process().wait_for_exit(); // these have more calls than that
        }
        usleep(100'000); // in which the target can come to harm
        ASSERT_EQ(kill(*guardian, SIGCONT), 0);
        for (int answers = 0; answers < 3; ++answers) {
            EXPECT_THAT(read_answer(fixture.process()).failures, IsEmpty());
        }
        EXPECT_EQ(memleax.finish().status, SIGKILL);
        ask_all(fixture, kUses);
        EXPECT_THAT(unlike_their_files(take_snapshot(fixture.pid())), IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// What the target has kept while we watched is its own, and can be put back when we are gone.
TEST(TrapActionKept, IsPutBackWhenWeHaveLeft) {
    for (const char* before : {"first", "ignore"}) {
        SCOPED_TRACE(before);
        Fixture fixture("trap_actions");
        ask_all(fixture, {before});
        Memleax memleax({"-q", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        ask_all(fixture, {"second", "trap"});
        EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
        ask_all(fixture, {"trap", "put back", "trap", "fork", "spawn"});
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// By a system call that we do not see: the page with our handler stays, as the target may have kept
// its address, and we say so.
TEST(TrapActionUnseen, IsFoundOut) {
    Fixture fixture("trap_actions");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"raw", "trap", "trap", "fork", "second", "trap", "put back", "trap"});
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("stays mapped, and does no harm"));
    ask_all(fixture, {"trap", "fork", "spawn"});
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TrapActionUnseen, IsOlderThanWhatIsSetAfterIt) {
    Fixture fixture("trap_actions");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"raw", "second", "go", "trap", "fork"});
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    ask_all(fixture, {"trap", "put back", "trap"});
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TrapActionUnseen, IsLeftInForce) {
    Fixture fixture("trap_actions");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"raw"});
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    ask_all(fixture, {"trap", "fork"});
    EXPECT_EQ(fixture.quit(), 0);
}

// Twice would call a handler that the kernel has taken away.
TEST(TrapActionOnce, IsTheDefaultAfterwards) {
    for (const bool watched : {false, true}) {
        Fixture fixture("trap_actions");
        std::optional<Memleax> memleax;
        if (watched) {
            memleax.emplace(std::vector<std::string>{"-q", std::to_string(fixture.pid())});
            memleax->wait_until_watching();
        }
        ask_all(fixture, {"once", "trap", "go", "first", "trap", "once", "trap", "go"});
        fixture.process().send("trap");
        const int status = fixture.process().wait_for_end();
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP) << status;
    }
}

TEST(TrapActionDefault, EndsTheProcess) {
    Fixture fixture("trap_actions");
    Memleax memleax({"-q", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    ask_all(fixture, {"first", "trap", "default"});
    fixture.process().send("trap");
    const int status = fixture.process().wait_for_end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP) << status;
    EXPECT_EQ(memleax.finish().status, 0);
}

} // namespace
} // namespace memleax::testing
