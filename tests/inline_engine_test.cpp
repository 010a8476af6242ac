// SPDX-License-Identifier: GPL-3.0-or-later
// What is the inline engine's alone. That it counts as the other one does, the other live tests
// say: they run with both (MEMLEAX_TEST_ENGINE).
#include <chrono>
#include <csignal>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include "arch.hpp"
#include "kill_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/mapping_query.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "prompt_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(InlineEngine, OnlyTheFirstCallFromAPlaceStops) {
    constexpr int kBlocks = 20000;
    Fixture fixture("big_live", {std::to_string(kBlocks)});
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    expect_truth(report, answer);
    EXPECT_EQ(report.at("session").at("engine"), "inline");
    const auto calls = report.at("session").at("calls");
    EXPECT_EQ(calls.at("all"), kBlocks);
    // One place, and the ring may have been full.
    EXPECT_GE(calls.at("stopped"), 1);
    EXPECT_LT(calls.at("stopped"), kBlocks / 100);
    EXPECT_EQ(fixture.quit(), 0);
}

/// Kills of memleax at random moments, while the fixture works.
void expect_deaths_leave_alone(const char* name, const std::vector<std::string>& arguments = {}) {
    Fixture fixture(name, arguments);
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Stress stress(20);
    while (stress.next()) {
        Memleax memleax({"--engine", "inline", "--log", "debug", std::to_string(fixture.pid())});
        memleax.wait_until_patched();
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        kill_at_random_moment(memleax, stress, 30'000);
        const auto result = memleax.finish();
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, SIGKILL);
        EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// Who comes to a breakpoint with SIGTRAP blocked is ended by it if nobody is there to take the hit:
// there is none between our death and the guardian, nor on the jumps' way out.
TEST(InlineEngine, ItsDeathLetsCallsPassThatAreMadeWithAllSignalsBlocked) {
    expect_deaths_leave_alone("blocking_calls");
}

void expect_no_stops_of_sigaction(const std::vector<std::string>& arguments) {
    Fixture fixture("vfork_actions", arguments);
    Memleax memleax({"--engine", "inline", "--log", "debug", std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    EXPECT_GT(answer.counts.at("calls"), 10'000);
    EXPECT_LT(answer.counts.at("switches"), answer.counts.at("calls") / 10);
    EXPECT_EQ(answer.counts.at("not_default"), 0);
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// Nothing is to be seen of it: it is watched for the sake of SIGTRAP's action. Children by vfork
// call it some sixty times each, and each is traced.
TEST(InlineEngine, SigactionStopsForSigtrapOnly) {
    expect_no_stops_of_sigaction({});
}

// Nor who only asks for SIGTRAP's, as long as that is the default.
TEST(InlineEngine, SigactionTellsSigtrapsDefaultWithoutAStop) {
    expect_no_stops_of_sigaction({"trap"});
}

// The same of children by vfork, with all signals blocked.
TEST(InlineEngine, ItsDeathLeavesChildrenAloneThatCallSigaction) {
    expect_deaths_leave_alone("vfork_actions");
}

TEST(InlineEngine, ItsDeathLeavesChildrenAloneThatAskForSigtrapsAction) {
    expect_deaths_leave_alone("vfork_actions", {"trap"});
}

// Each address is allocated by one thread, freed by another, and allocated again while both still
// have it in mind. A million calls each, so that the rings are read at many a moment.
TEST(InlineEngine, BlocksThatGoFromHandToHandAreCountedOnce) {
    for (int round = 0; round < 4; ++round) {
        Fixture fixture("handed_over", {"100000"});
        Memleax memleax(
            {"--engine", "inline", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

/// Does the kernel tell of one mapping (PROCMAP_QUERY, since Linux 6.11)?
bool newborns_are_made_known() {
    int here = 0;
    return MappingQuery(Tid(getpid()))
        .covering(RemoteAddr(reinterpret_cast<std::uintptr_t>(&here)))
        .has_value();
}

// It is known to the agent from its birth on. (Its signals may be blocked: a hit without a tracer
// would end the process.)
TEST(InlineEngine, ANewbornsFirstCallNeedsNoStop) {
    if (!newborns_are_made_known()) {
        GTEST_SKIP() << "the kernel does not tell of one mapping (PROCMAP_QUERY, since Linux 6.11)";
    }
    constexpr int kThreads = 60;
    Fixture fixture("blocking_births", {std::to_string(kThreads)});
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto calls = result.json().at("session").at("calls");
    EXPECT_GE(calls.at("all"), kThreads * 2);
    EXPECT_LT(calls.at("stopped"), kThreads / 4);
    EXPECT_EQ(fixture.quit(), 0);
}

/// Waits for a thread of the fixture's that is none of `before`, and stands in its first stop.
void await_newborn(const Fixture& fixture, const std::set<int>& before) {
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
        for (const Tid tid : list_threads(Tid(fixture.pid()))) {
            const auto info = try_read_process_info(tid);
            if (!before.contains(tid.value()) && info && info->state == 't') {
                return;
            }
        }
        if (std::chrono::steady_clock::now() > deadline) {
            throw std::runtime_error("no thread is born");
        }
        ::poll(nullptr, 0, 1);
    }
}

// The C library gives a newborn the stack, and so the thread pointer, of a thread that has just
// ended: memleax, which does not look meanwhile, hears of both at once.
TEST(InlineEngine, ANewbornMayHaveTheStackOfAThreadWhoseEndIsUntold) {
    if (!newborns_are_made_known()) {
        GTEST_SKIP() << "the kernel does not tell of one mapping (PROCMAP_QUERY, since Linux 6.11)";
    }
    constexpr int kRounds = 20;
    Fixture fixture("stack_heirs");
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    // Its first thread is not to stop where memleax does not look: each of its paths is known then.
    fixture.ask("begin");
    FixtureAnswer answer = fixture.go();
    for (int round = 1; round < kRounds; ++round) {
        fixture.ask("begin");
        std::set<int> before;
        for (const Tid tid : list_threads(Tid(fixture.pid()))) {
            before.insert(tid.value());
        }
        memleax.process().signal(SIGSTOP);
        int status = 0;
        ASSERT_EQ(::waitpid(memleax.process().pid(), &status, WUNTRACED), memleax.process().pid());
        ASSERT_TRUE(WIFSTOPPED(status));
        fixture.process().send("go");
        await_newborn(fixture, before);
        memleax.process().signal(SIGCONT);
        answer = read_answer(fixture.process());
    }
    ASSERT_EQ(answer.counts.at("inherited"), kRounds);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    const auto calls = report.at("session").at("calls");
    EXPECT_GE(calls.at("all"), kRounds * 4);
    EXPECT_LT(calls.at("stopped"), kRounds / 2);
    expect_truth(report, answer);
    EXPECT_EQ(fixture.quit(), 0);
}

// A caller that was compiled together with its allocator knows which registers that leaves alone.
TEST(InlineEngine, ChangesNoRegisterThatTheFunctionLeavesAlone) {
    Fixture fixture("kept_registers");
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto calls = result.json().at("session").at("calls");
    EXPECT_GE(calls.at("all"), 40'000);
    EXPECT_LT(calls.at("stopped"), 1'000);
    EXPECT_EQ(fixture.quit(), 0);
}

// A profiler in the target walks from its handler, wherever that interrupts a thread: not past our
// frame, but no further.
TEST(InlineEngine, AProfilersHandlerWalksWhereverItComes) {
    for (int round = 0; round < 3; ++round) {
        Fixture fixture("profiled");
        const TargetSnapshot before = take_snapshot_unblocked(fixture.pid(), SIGPROF);
        Memleax memleax(
            {"--engine", "inline", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_LT(answer.counts.at("cut_short"), answer.counts.at("samples"));
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_THAT(
            differences(before, take_snapshot_unblocked(fixture.pid(), SIGPROF), Meanwhile::worked),
            IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// The agent reads nothing through such a pointer (x86_64), or the target gets no signal for it.
TEST(InlineEngine, CallsOfThreadsWithoutAThreadPointerAreCounted) {
    if (!is_built("no_thread_pointer")) {
        GTEST_SKIP() << "on this CPU a thread pointer is nothing that can be read through";
    }
    Fixture fixture("no_thread_pointer");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    FixtureAnswer answer;
    for (int round = 0; round < 10; ++round) {
        answer = fixture.go();
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_EQ(answer.counts.at("faults"), 0);
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.json().at("session").at("engine"), "inline");
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// What it writes there is its own fault: memleax may count wrongly, and its pages may stay, but
// neither of the two may crash, and the program's code is as it was.
TEST(InlineEngine, SurvivesATargetThatWritesIntoItsMemory) {
    for (int round = 0; round < 4; ++round) {
        Fixture fixture("scribbler");
        fixture.go();
        Memleax memleax(
            {"--engine", "inline", "-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_GT(answer.counts.at("scribbled"), 0);
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json().at("session").at("engine"), "inline");
        EXPECT_THAT(unlike_their_files(take_snapshot(fixture.pid())), IsEmpty());
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

TEST(InlineEngine, StatusSaysHowManyCallsStopped) {
    PromptOnTerminal prompt("expiring", {.arguments = {"--engine", "inline", "-e", "1000"}});
    std::string status;
    do { // the first calls may come before the jumps are there
        prompt.fixture->ask("leak");
        status = prompt.run("status");
    } while (status.find("1 new threads") == std::string::npos);
    EXPECT_THAT(
        status,
        ContainsRegex("calls       [0-9]+ of allocator functions, [0-9]+ of them with a stop: "));
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// Errors and mapped memory need no other engine for the heap.
TEST(InlineEngine, ChecksAndTracksWithoutStops) {
    constexpr int kBlocks = 20000;
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--check"}, std::vector<std::string>{"--track", "heap,mmap"},
          std::vector<std::string>{"--check", "--track", "heap,mmap,brk,shm"}}) {
        Fixture fixture("big_live", {std::to_string(kBlocks)});
        std::vector<std::string> arguments{"--engine", "auto", "--log", "debug",
                                           "-F",       "json", "-e",    "1000"};
        arguments.insert(arguments.end(), options.begin(), options.end());
        arguments.push_back(std::to_string(fixture.pid()));
        Memleax memleax(arguments);
        memleax.wait_until_patched();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_LT(result.json().at("session").at("calls").at("stopped"), kBlocks / 100);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

/// Reasons add up to the stops.
std::int64_t sum_of_reasons(const nlohmann::json& calls) {
    std::int64_t sum = 0;
    for (const auto& [reason, count] : calls.at("why").items()) {
        sum += count.get<std::int64_t>();
    }
    return sum;
}

// The child has the thread pointer of its parent, which waits for it, and goes on with it.
TEST(InlineEngine, AChildsStopMeansNothingForTheParentThatItSharesAThreadWith) {
    Fixture fixture("vforker", {"shared"});
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_patched();
    fixture.go();
    fixture.process().send("hold 1");
    int child = 0;
    const std::string line = fixture.process().read_line().value_or("");
    ASSERT_EQ(sscanf(line.c_str(), "held %d", &child), 1) << line;
    kill(child, SIGCONT); // stops it for its tracer (kernel/signal.c, ptrace_trap_notify)
    fixture.ask("release");
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(live_leaks(result.json()), answer.truth);
    const auto calls = result.json().at("session").at("calls");
    // Its own calls stop, as its stack is not its parent's: 11 of each child.
    EXPECT_EQ(calls.at("why").at("no_block"), 11 * answer.counts.at("children")) << calls;
    EXPECT_EQ(fixture.quit(), 0);
}

// Most of them have less room than the first ones, and all go the fast way.
TEST(InlineEngine, ThousandsOfThreads) {
    for (const auto& [all, operations] : {std::pair{1000, 100}, std::pair{2000, 60}}) {
        const int threads = share_of(all);
        Fixture fixture("threads16", {std::to_string(threads), std::to_string(operations)});
        Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                         std::to_string(fixture.pid())});
        memleax.wait_until_patched();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        const auto calls = result.json().at("session").at("calls");
        // And the first one. The thread that makes our calls, the one with the lowest number, is
        // known before its first call, as newborns are, if it is not the first one: where numbers
        // have begun anew meanwhile.
        const int new_threads = calls.at("why").at("new_thread");
        EXPECT_TRUE(new_threads == threads + 1 || new_threads == threads) << calls;
        EXPECT_EQ(calls.at("why").count("no_block"), 0) << calls;
        EXPECT_EQ(sum_of_reasons(calls), calls.at("stopped")) << calls;
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
