// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that waits for its child by vfork cannot be stopped, whatever it is asked: not before
// the child goes on, which may itself wait for memleax. Nobody is waited for for ever (a hang ends
// at the tests' deadline), and nothing in the target shows that memleax was there.
//
// At 20 times as many moments: MEMLEAX_STRESS_COUNT=20 vfork_test
#include <chrono>
#include <csignal>
#include <sstream>
#include <stop_token>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "kill_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Case {
    bool shared = false; ///< the child has the parent's memory
    bool follow = false;
};

std::vector<std::string> arguments_of(const Case& test_case) {
    return test_case.shared ? std::vector<std::string>{"shared"} : std::vector<std::string>{};
}

class Vfork : public ::testing::TestWithParam<Case> {
  protected:
    std::vector<std::string> options(std::vector<std::string> others) const {
        if (GetParam().follow) {
            others.emplace_back("-f");
        }
        return others;
    }
    Memleax watch(const std::vector<std::string>& others = {"-F", "json", "-e", "1000"}) const {
        auto arguments = options(others);
        arguments.push_back(std::to_string(fixture_.pid()));
        return Memleax(arguments);
    }
    void start_working() {
        fixture_.process().send("spin");
        ASSERT_EQ(fixture_.process().read_line(), "spinning");
    }
    /// Has it worked well, and is it as it was?
    void expect_unharmed() {
        ASSERT_EQ(kill(fixture_.pid(), 0), 0);
        EXPECT_THAT(fixture_.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before_, take_snapshot(fixture_.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    /// So many generations, each waiting for the next; their pids.
    std::vector<pid_t> hold(int generations) {
        fixture_.process().send(fmt::format("hold {}", generations));
        std::istringstream line(fixture_.process().read_line().value_or(""));
        std::vector<pid_t> pids;
        std::string word;
        line >> word;
        EXPECT_EQ(word, "held");
        for (pid_t pid = 0; line >> pid;) {
            pids.push_back(pid);
        }
        EXPECT_EQ(pids.size(), static_cast<std::size_t>(generations));
        return pids;
    }
    /// The code of all that it runs, whatever else stays.
    void expect_no_breakpoints() {
        const auto before = code_of(before_);
        const auto after = code_of(take_snapshot(fixture_.pid()));
        for (const std::string& code : before) {
            EXPECT_TRUE(after.contains(code)) << code.substr(0, 100);
        }
    }

    Fixture fixture_{"vforker", arguments_of(GetParam())};
    const TargetSnapshot before_ = take_snapshot(fixture_.pid());
};

TEST_P(Vfork, CountsAreExact) {
    Memleax memleax = watch();
    memleax.wait_until_watching();
    FixtureAnswer answer;
    const int rounds = share_of(20);
    for (int i = 0; i < rounds; ++i) {
        answer = fixture_.go();
        EXPECT_THAT(answer.failures, IsEmpty());
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    auto report = result.json();
    if (GetParam().follow && !GetParam().shared) {
        EXPECT_EQ(report.at("processes").size(),
                  1 + static_cast<std::size_t>(answer.counts.at("children")));
        // Each child's own leak; the parent knows of none.
        EXPECT_EQ(live_leaks(report).at("child_block"),
                  (Leak{answer.counts.at("children"), 100 * answer.counts.at("children")}));
    }
    Leaks leaks = live_leaks(report);
    if (!GetParam().shared) {
        leaks.erase("child_block");
    }
    EXPECT_EQ(leaks, answer.truth) << result.errors;
    expect_unharmed();
    EXPECT_EQ(fixture_.quit(), 0);
}

// This is where it is hit, not a wait for anything.
void pass_some_time(Stress& stress) {
    std::this_thread::sleep_for(std::chrono::microseconds(stress.number_to(60'000)));
}

TEST_P(Vfork, IsLeftAtAnyMoment) {
    Stress stress(25);
    while (stress.next()) {
        start_working();
        Memleax memleax = watch();
        const bool watching = stress.number_to(4) != 1;
        if (watching) {
            memleax.wait_until_watching();
        }
        pass_some_time(stress);
        const auto result = memleax.interrupt_and_finish();
        SCOPED_TRACE(result.errors);
        if (watching) { // else it may have ended before it knew the signal
            EXPECT_EQ(result.status, 0);
        }
        EXPECT_THAT(result.errors, Not(HasSubstr("stay mapped")));
        expect_unharmed();
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

TEST_P(Vfork, IsLeftAtAnyMomentAfterALaunch) {
    Stress stress(10);
    while (stress.next()) {
        auto arguments = options({"-q", "-n", "-o", "/dev/null", "--", fixture_path("vforker")});
        if (GetParam().shared) {
            arguments.emplace_back("shared");
        }
        Memleax memleax(arguments);
        ASSERT_EQ(memleax.process().read_line(), "ready");
        memleax.process().send("spin");
        ASSERT_EQ(memleax.process().read_line(), "spinning");
        pass_some_time(stress);
        const bool killed = stress.number_to(3) == 1;
        memleax.process().signal(killed ? SIGKILL : SIGINT);
        memleax.process().send("stop");
        EXPECT_THAT(read_answer(memleax.process()).failures, IsEmpty());
        const auto result = memleax.quit_fixture_and_finish();
        EXPECT_EQ(result.status, killed ? SIGKILL : 0) << result.errors;
    }
}

TEST_P(Vfork, OutlivesMemleax) {
    Stress stress(25);
    while (stress.next()) {
        start_working();
        Memleax memleax = watch({"-q", "-e", "1000"});
        if (stress.number_to(4) != 1) {
            memleax.wait_until_watching();
        }
        pass_some_time(stress);
        memleax.process().signal(SIGKILL);
        const auto result = memleax.finish(); // with the guardian, who has the same standard error
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, SIGKILL);
        expect_unharmed();
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

// As long as its child waits for the test, the only thread that could take our pages away waits,
// too. They stay, and do no harm.
TEST_P(Vfork, IsLeftWhileItsChildLivesOn) {
    for (const int generations : {1, 3}) {
        Memleax memleax = watch();
        memleax.wait_until_watching();
        hold(generations);
        const auto result = memleax.interrupt_and_finish();
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, 0);
        EXPECT_THAT(result.errors, HasSubstr("stay mapped"));
        expect_no_breakpoints();
        EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
        EXPECT_THAT(fixture_.go().failures, IsEmpty());
    }
    EXPECT_EQ(fixture_.quit(), 0);
}

// Stopped by job control, it does not even come when it is asked to.
TEST_P(Vfork, IsLeftWhileItsChildIsStopped) {
    Memleax memleax = watch();
    memleax.wait_until_watching();
    const auto children = hold(1);
    ASSERT_EQ(kill(children[0], SIGSTOP), 0);
    const auto result = memleax.interrupt_and_finish();
    SCOPED_TRACE(result.errors);
    EXPECT_EQ(result.status, 0);
    expect_no_breakpoints();
    ASSERT_EQ(kill(children[0], SIGCONT), 0);
    EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
    EXPECT_THAT(fixture_.go().failures, IsEmpty());
    EXPECT_EQ(fixture_.quit(), 0);
}

TEST_P(Vfork, OutlivesMemleaxWhileItsChildLivesOn) {
    Memleax memleax = watch({"-q", "-e", "1000"});
    memleax.wait_until_watching();
    hold(2);
    memleax.process().signal(SIGKILL);
    const auto result = memleax.finish();
    SCOPED_TRACE(result.errors);
    expect_no_breakpoints();
    EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
    EXPECT_THAT(fixture_.go().failures, IsEmpty());
    EXPECT_EQ(fixture_.quit(), 0);
}

// The guardian takes 2 s to leave where there is such a child.
TEST_P(Vfork, IsWatchedAgainWhenTheGuardianHasLeft) {
    Memleax memleax = watch({"-q", "-e", "1000"});
    memleax.wait_until_watching();
    const auto guardian = guardian_of(memleax);
    ASSERT_TRUE(guardian);
    hold(1);
    memleax.process().signal(SIGKILL);
    const auto is_traced_by_it = [&] { // by a thread of it
        const auto tracer =
            try_read_process_info(try_read_process_info(Tid(fixture_.pid()))->tracer);
        return tracer && tracer->tgid == Tid(*guardian);
    };
    while (!is_traced_by_it()) {
        ASSERT_TRUE(try_read_process_info(Tid(*guardian))) << "it has left already";
    }
    kill(*guardian, SIGSTOP); // it is still there when the next one comes
    Memleax next = watch();
    EXPECT_TRUE(next.process().find_error_line("is waited for"));
    kill(*guardian, SIGCONT);
    EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
    next.wait_until_watching();
    const auto result = next.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    memleax.finish();
    expect_unharmed();
    EXPECT_EQ(fixture_.quit(), 0);
}

TEST_P(Vfork, ChildMayBeKilled) {
    fixture_.process().send(fmt::format("expect {}", SIGKILL));
    Memleax memleax = watch();
    memleax.wait_until_watching();
    const auto children = hold(1);
    ASSERT_EQ(kill(children[0], SIGKILL), 0);
    EXPECT_THAT(read_answer(fixture_.process()).failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_unharmed();
    EXPECT_EQ(fixture_.quit(), 0);
}

// With the parent's memory the child is as good as it. One with its own has nothing to do with
// memleax, which has nobody to make a system call: it says so.
TEST_P(Vfork, IsFoundWhileItsChildLivesOn) {
    hold(1);
    Memleax memleax = watch();
    if (GetParam().shared) {
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
    } else {
        const auto result = memleax.finish();
        EXPECT_NE(result.status, 0);
        EXPECT_THAT(result.errors, HasSubstr("cannot be stopped now"));
    }
    EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
    expect_unharmed();
    EXPECT_EQ(fixture_.quit(), 0);
}

/// memleax stands still at a system call of its own: the child executes a program meanwhile.
class VforkMeanwhile : public Vfork {
  protected:
    void SetUp() override {
        if (!has_program("strace")) {
            GTEST_SKIP() << "strace is not here";
        }
    }
    /// At the call number `when` of those about this path. `line` has the child execute.
    void expect_child_to_be_let_go(const std::string& call, int when, const std::string& path,
                                   const std::string& line) {
        // It is to say little, as nobody reads that in time.
        CommandLine command{{"strace", "-f", "-Z", "-b", "execve", "-P", path, "-e",
                             "trace=" + call, "-e", "signal=SIGSTOP", "-e",
                             fmt::format("inject={}:signal=SIGSTOP:when={}", call, when)}};
        for (const auto& words : {memleax_command(),
                                  options({"-F", "json", "-e", "1000"}),
                                  {std::to_string(fixture_.pid())}}) {
            command.words.insert(command.words.end(), words.begin(), words.end());
        }
        Memleax memleax(command);
        ASSERT_TRUE(memleax.process().find_error_line("stopped by SIGSTOP"));
        ASSERT_NE(try_read_process_info(Tid(fixture_.pid()))->tracer, Tid(0)) << "not that look";
        fixture_.process().send(line);
        ASSERT_EQ(fixture_.process().read_line(), "looking");
        const auto children = children_of(memleax.process().pid());
        ASSERT_EQ(children.size(), 1U);
        {
            // strace counts calls by thread, and the one that reaps may come there as well.
            const std::jthread continues([pid = *children.begin()](const std::stop_token& stop) {
                for (; !stop.stop_requested(); poll(nullptr, 0, 1)) {
                    kill(pid, SIGCONT);
                }
            });
            memleax.wait_until_watching();
        }
        EXPECT_THAT(fixture_.ask("release").failures, IsEmpty());
        ASSERT_EQ(kill(*children.begin(), SIGINT), 0);
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_unharmed();
        EXPECT_EQ(fixture_.quit(), 0);
    }
};

// Who has the memory of the target is found out before, by a look at all processes.
TEST_P(VforkMeanwhile, ChildThatExecutesIsNotTraced) {
    hold(1);
    expect_child_to_be_let_go("getdents64", 4, "/proc", "execute");
}

class SharedVforkMeanwhile : public VforkMeanwhile {};

// It has been asked by then, and is to be seized.
TEST_P(SharedVforkMeanwhile, AllThreadsOfAChildThatExecutesAreLetGo) {
    const pid_t child = hold(1).at(0);
    expect_child_to_be_let_go("openat", 1, fmt::format("/proc/{}/task", child), "execute threads");
}

std::string name_of(const ::testing::TestParamInfo<Case>& instance) {
    return std::string(instance.param.shared ? "Shared" : "Own") +
           (instance.param.follow ? "Followed" : "");
}

const auto kAllKinds =
    ::testing::Values(Case{false, false}, Case{false, true}, Case{true, false}, Case{true, true});
INSTANTIATE_TEST_SUITE_P(Kinds, Vfork, kAllKinds, name_of);
INSTANTIATE_TEST_SUITE_P(Kinds, VforkMeanwhile, kAllKinds, name_of);
INSTANTIATE_TEST_SUITE_P(Kinds, SharedVforkMeanwhile,
                         ::testing::Values(Case{true, false}, Case{true, true}), name_of);

} // namespace
} // namespace memleax::testing
