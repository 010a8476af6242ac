// SPDX-License-Identifier: GPL-3.0-or-later
// memleax --probe on a program that knows how often it comes by its probes, from where, with what.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands_support.hpp"
#include "kill_support.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Calls = std::map<std::string, std::int64_t>;
using Values = std::map<std::int64_t, std::int64_t>;

std::vector<std::string> arguments_for(const std::vector<std::string>& probes, pid_t pid) {
    std::vector<std::string> arguments{"-F", "json", "-e", "1000"};
    for (const std::string& probe : probes) {
        arguments.insert(arguments.end(), {"--probe", probe});
    }
    arguments.push_back(std::to_string(pid));
    return arguments;
}

/// By the probe's name, over all processes of the report.
Calls calls_of(const nlohmann::json& report) {
    Calls calls;
    for (const auto& probe : report.at("probes")) {
        std::int64_t sum = 0;
        for (const auto& stack : probe.at("callstacks")) {
            sum += stack.at("calls").get<std::int64_t>();
        }
        EXPECT_EQ(probe.at("calls"), sum) << probe.at("name");
        calls[probe.at("name")] += sum;
    }
    return calls;
}

const nlohmann::json& probe_named(const nlohmann::json& report, const std::string& name) {
    for (const auto& probe : report.at("probes")) {
        if (probe.at("name") == name) {
            return probe;
        }
    }
    throw std::runtime_error("the report has no probe " + name);
}

Values values_of(const nlohmann::json& report, const std::string& name) {
    Values values;
    for (const auto& argument : probe_named(report, name).at("arguments")) {
        values[argument.at("value")] = argument.at("calls");
    }
    return values;
}

/// By the function that has called the one with the probe; the fixture's lowest frame is that of
/// the probe itself.
Calls calls_by_caller(const nlohmann::json& report, const std::string& name) {
    Calls calls;
    for (const auto& stack : probe_named(report, name).at("callstacks")) {
        calls[stack.at("frames").at(1).value("function", "?")] += stack.at("calls").get<int>();
    }
    return calls;
}

struct Watched {
    FixtureAnswer answer; ///< while it was watched
    FixtureAnswer after;
    nlohmann::json report;
    std::string errors;
};

/// One round under memleax, and one line afterwards; nothing of ours is left, not in data, either.
Watched watch_round(Fixture& fixture, const std::vector<std::string>& probes,
                    const std::vector<std::string>& more = {}) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    std::vector<std::string> arguments = arguments_for(probes, fixture.pid());
    arguments.insert(arguments.end(), more.begin(), more.end());
    Memleax memleax(arguments);
    memleax.wait_until_watching();
    Watched watched;
    watched.answer = fixture.go();
    EXPECT_THAT(watched.answer.failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    watched.report = result.json();
    watched.errors = result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    watched.after = fixture.ask("look");
    return watched;
}

TEST(Probes, EachCallIsCountedByStackAndArgument) {
    Fixture fixture("probed");
    const Watched watched = watch_round(fixture, {"demo:*", "plain_function"});
    EXPECT_EQ(calls_of(watched.report), (Calls{{"demo:step", 15},
                                               {"demo:stack", 1},
                                               {"demo:constant", 1},
                                               {"demo:global", 1},
                                               {"demo:twin_one", 1},
                                               {"demo:twin_two", 1},
                                               {"demo:guarded", 1},
                                               {"plain_function", 3}}));
    EXPECT_EQ(calls_by_caller(watched.report, "demo:step"), (Calls{{"from_a", 10}, {"from_b", 5}}));
    EXPECT_EQ(calls_by_caller(watched.report, "plain_function"), (Calls{{"all_kinds", 3}}));
    EXPECT_EQ(values_of(watched.report, "demo:step"),
              (Values{{-7, 10}, {0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:stack"), (Values{{1LL << 40, 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:constant"), (Values{{42, 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:global"), (Values{{4711, 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:twin_one"), (Values{{1, 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:twin_two"), (Values{{2, 1}}));
    EXPECT_EQ(values_of(watched.report, "plain_function"), (Values{{11, 2}, {12, 1}}));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, TheSemaphoreIsRaisedAsLongAsTheyAreWatched) {
    Fixture fixture("probed");
    EXPECT_EQ(fixture.go().counts.at("semaphore"), 0);
    const Watched watched = watch_round(fixture, {"demo:guarded"});
    EXPECT_EQ(watched.answer.counts.at("semaphore"), 1);
    EXPECT_EQ(watched.answer.counts.at("computed"), 1);
    EXPECT_EQ(calls_of(watched.report), (Calls{{"demo:guarded", 1}}));
    EXPECT_EQ(values_of(watched.report, "demo:guarded"), (Values{{3, 1}}));
    EXPECT_EQ(watched.after.counts.at("semaphore"), 0);
    EXPECT_EQ(fixture.go().counts.at("computed"), 1); // as before
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, OfSeveralThreads) {
    Fixture fixture("probed", {"threads"});
    const Watched watched = watch_round(fixture, {"demo:*", "plain_function"});
    Calls calls = calls_of(watched.report);
    EXPECT_EQ(calls.at("demo:step"), watched.answer.counts.at("step"));
    EXPECT_EQ(calls.at("demo:step"), 15'000);
    EXPECT_EQ(calls.at("demo:twin_two"), watched.answer.counts.at("twin"));
    EXPECT_EQ(calls.at("demo:guarded"), watched.answer.counts.at("computed"));
    EXPECT_EQ(calls.at("plain_function"), watched.answer.counts.at("plain"));
    EXPECT_EQ(values_of(watched.report, "demo:step").at(-7), 10'000);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, NotesThatLieAreRefused) {
    Fixture fixture("probed");
    const Watched watched = watch_round(fixture, {"lie:*", "demo:step"});
    EXPECT_EQ(calls_of(watched.report), (Calls{{"demo:step", 15}}));
    EXPECT_THAT(watched.errors,
                AllOf(ContainsRegex("the probe lie:within at 0x[0-9a-f]+ is not watched: there is "
                                    "no no-op, as its note says"),
                      HasSubstr("the note of lie:data is wrong, and is passed over"),
                      HasSubstr("the note of lie:semaphore is wrong"),
                      HasSubstr("the note of lie:nowhere is wrong")));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, WhatIsNotThereIsTold) {
    Fixture fixture("probed");
    const Watched watched =
        watch_round(fixture, {"libc:memory_no_such", "no_such_function", "demo:step"});
    EXPECT_EQ(calls_of(watched.report), (Calls{{"demo:step", 15}}));
    EXPECT_THAT(watched.errors,
                AllOf(ContainsRegex("--probe libc:memory_no_such: no module of process [0-9]+ has "
                                    "that so far; a C library may have been built without"),
                      ContainsRegex("--probe no_such_function: no module of process [0-9]+ has "
                                    "that so far\n"),
                      Not(HasSubstr("--probe demo"))));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, ExecveIsRefused) {
    Fixture fixture("probed");
    const Watched watched = watch_round(fixture, {"execve", "demo:step"});
    EXPECT_EQ(calls_of(watched.report), (Calls{{"demo:step", 15}}));
    EXPECT_THAT(watched.errors,
                AllOf(HasSubstr("the probe execve at 0x"),
                      HasSubstr("a child of posix_spawn calls it"), Not(HasSubstr("no module"))));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, AChildThatNobodyFollowsHasNothingOfOurs) {
    Fixture fixture("probed", {"fork"});
    const Watched watched = watch_round(fixture, {"demo:*"});
    EXPECT_EQ(watched.answer.counts.at("childs_semaphore"), 0);
    EXPECT_EQ(calls_of(watched.report).at("demo:step"), 15);
    EXPECT_EQ(watched.after.counts.at("semaphore"), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, OfAChildThatIsFollowed) {
    Fixture fixture("probed", {"fork"});
    const Watched watched = watch_round(fixture, {"demo:*"}, {"-f"});
    EXPECT_EQ(watched.answer.counts.at("childs_semaphore"),
              1); // the child's own watch has raised it
    const Calls calls = calls_of(watched.report);
    EXPECT_EQ(calls.at("demo:step"), 30);
    EXPECT_EQ(calls.at("demo:guarded"), 2);
    EXPECT_EQ(probe_named(watched.report, "demo:step").at("calls"), 15);
    EXPECT_EQ(probe_named(watched.report, "demo:step").at("pid"), fixture.pid());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, OfALibraryThatComesAndGoes) {
    Fixture fixture("probed", {"plugin"});
    const Watched watched = watch_round(fixture, {"plugin:*"});
    EXPECT_EQ(calls_of(watched.report), (Calls{{"plugin:come_by", 3}}));
    EXPECT_EQ(values_of(watched.report, "plugin:come_by"), (Values{{0, 1}, {1, 1}, {2, 1}}));
    EXPECT_EQ(watched.answer.counts.at("plugins_semaphores"), 3);
    EXPECT_EQ(fixture.go().counts.at("plugins_semaphores"), 3); // no more: nobody watches
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, OfAProgramThatIsExecuted) {
    Fixture fixture("probed", {"exec"});
    Memleax memleax(arguments_for({"demo:step", "plain_function"}, fixture.pid()));
    memleax.wait_until_watching();
    EXPECT_EQ(fixture.go().counts.at("step"), 15);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(calls_of(result.json()), (Calls{{"demo:step", 15}, {"plain_function", 3}}));
    EXPECT_EQ(fixture.quit(), 0);
}

// A function that the engine would have begin with a jump.
TEST(Probes, AtAnAllocatorsEntry) {
    Fixture fixture("probed", {"threads"});
    const Watched watched = watch_round(fixture, {"malloc", "free"});
    const auto& events = watched.report.at("session").at("events");
    EXPECT_GE(calls_of(watched.report).at("malloc"), 1000);
    EXPECT_EQ(values_of(watched.report, "malloc").at(100), 1000);
    EXPECT_EQ(calls_by_caller(watched.report, "malloc").at("all_kinds"), 1000);
    EXPECT_EQ(calls_by_caller(watched.report, "free").at("all_kinds"), 1000);
    EXPECT_GE(events.at("alloc"), 1000);
    EXPECT_GE(events.at("free"), 1000);
    if (watched.report.at("session").at("engine") == "inline") {
        EXPECT_THAT(watched.errors, HasSubstr("each call of malloc stops its thread: there is a "
                                              "probe in its first instructions"));
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, TheTextReportHasThem) {
    Fixture fixture("probed");
    Memleax memleax({"-e", "1000", "--probe", "demo:step", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("Probe demo:step: 15 calls; first argument: -7 (10), 0 (1), 1 (1)"),
                      ContainsRegex("  10 calls:\n    0x[0-9a-f]+ .*step.*\n.*from_a")));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Probes, FromTheStartOfAProgram) {
    Memleax memleax({"-F", "json", "-q", "--probe", "demo:step", "--", fixture_path("probed")});
    memleax.let_fixture_go();
    const auto result = memleax.quit_fixture_and_finish();
    const auto report = nlohmann::json::parse(result.output.substr(result.output.find('{')));
    EXPECT_EQ(calls_of(report), (Calls{{"demo:step", 15}}));
}

TEST(Command_events, CountsAndListsProbes) {
    Fixture fixture("probed");
    Commands commands_of(fixture.pid(), {"--probe", "demo:step"});
    EXPECT_EQ(commands_of.output_of("events"), "Probe demo:step: 0 calls\n");
    fixture.go();
    EXPECT_THAT(commands_of.output_of("events"),
                HasSubstr("Probe demo:step: 15 calls; first argument: -7 (10), 0 (1), 1 (1)"));
    const std::string demos = commands_of.output_of("events probes demo:*");
    EXPECT_THAT(demos, ContainsRegex("probed +demo:guarded  8@"));
    EXPECT_THAT(demos, ContainsRegex("probed +demo:step  -4@[^ ]+: 15 calls"));
    EXPECT_THAT(demos, Not(HasSubstr("lie:")));
    EXPECT_THAT(commands_of.output_of("events probes"), HasSubstr("lie:within"));
    EXPECT_THAT(commands_of.output_of("events probes no:such"),
                HasSubstr("No such probe is there.\n"));
    EXPECT_THAT(commands_of.error_of("events probes a b"), HasSubstr("'b' is too much"));
    EXPECT_THAT(commands_of.error_of("events 5"), HasSubstr("mapped memory is not followed"));
    commands_of.quit();
}

TEST(Command_modules, SaysHowManyProbesThereAre) {
    Fixture fixture("probed");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.output_of("modules"), ContainsRegex(" probed .*, [0-9]+ probes\n"));
    commands_of.quit();
}

// The guardian takes out what is left, breakpoints and semaphores.
TEST(Probes, WhoIsKilledLeavesNothing) {
    for (const bool while_hit : {false, true}) {
        Fixture fixture("probed", {"threads"});
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax(arguments_for({"demo:*", "plain_function"}, fixture.pid()));
        memleax.wait_until_watching();
        EXPECT_EQ(fixture.ask("look").counts.at("semaphore"), 1);
        if (while_hit) {
            fixture.process().send("go");
        }
        memleax.process().signal(SIGKILL);
        const auto result = memleax.finish(); // after the guardian, who has the same stderr
        SCOPED_TRACE(result.errors);
        const FixtureAnswer answer = while_hit ? read_answer(fixture.process()) : fixture.go();
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_EQ(answer.counts.at("step"), 15'000);
        EXPECT_EQ(fixture.ask("look").counts.at("semaphore"), 0);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// In the midst of a hit, or of taking everything out.
TEST(Probes, WhoIsKilledAtAnyCallLeavesNothing) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    for (const int call : {1, 2, 3, 5, 8, 13, 40, 100}) {
        SCOPED_TRACE(call);
        Fixture fixture("probed", {"threads"});
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax(arguments_for({"demo:*", "plain_function"}, fixture.pid()));
        memleax.wait_until_watching();
        const KillAtPtraceCall kill_at(memleax, call);
        EXPECT_EQ(fixture.go().counts.at("step"), 15'000);
        (void)memleax.finish();
        EXPECT_EQ(fixture.ask("look").counts.at("semaphore"), 0);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
