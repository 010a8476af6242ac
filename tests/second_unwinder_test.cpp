// SPDX-License-Identifier: GPL-3.0-or-later
// libunwind as a second opinion: --unwinder libunwind, and the prompt's `compare`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::MatchesRegex;
using ::testing::Not;

struct Case {
    std::string fixture;
    std::vector<std::string> arguments{};
};

class SecondUnwinder : public ::testing::TestWithParam<Case> {};

// The truth that ExactCounts compares our own walks with.
TEST_P(SecondUnwinder, FindsEachFunctionsLeaksAndNothingElse) {
    if (!is_built(GetParam().fixture)) {
        GTEST_SKIP() << GetParam().fixture << " could not be built here";
    }
    Fixture fixture(GetParam().fixture, GetParam().arguments);
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax(
        {"-F", "json", "-e", "1000", "--unwinder", "libunwind", std::to_string(fixture.pid())});
    EXPECT_THAT(memleax.wait_until_watching(), HasSubstr(", engine int3, unwinder libunwind)"));
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    const auto report = result.json();
    EXPECT_EQ(report.at("session").at("engine"), "int3");
    EXPECT_EQ(report.at("session").at("unwinder"), "libunwind");
    expect_truth(report, answer);
    EXPECT_EQ(fixture.quit(), 0) << fixture.process().errors();
}

const Case kCases[] = {
    {"alloc_all-O0-fp-nopie"},
    {"alloc_all-O2-nofp-pie"},
    {"alloc_all_cxx-O2-nofp-pie"},
    {"dlopen_plugin", {"250"}},
    {"longjmp_exceptions"},

    {"other_stacks"},
    {"recursion"},
    {"signals"},
    {"threads16"},
};
INSTANTIATE_TEST_SUITE_P(Fixtures, SecondUnwinder, ::testing::ValuesIn(kCases),
                         [](const auto& each) {
                             return row_name(each.param.fixture, each.param.arguments, "");
                         });

// musl-gcc makes no .eh_frame_hdr, and libunwind looks nowhere else. The counts are the same.
TEST(UnwinderOption, StacksWithoutASearchTableSayWhyTheyEnd) {
    if (!is_built("musl-alloc_all")) {
        GTEST_SKIP() << "musl-alloc_all could not be built here";
    }
    Fixture fixture("musl-alloc_all");
    Memleax memleax(
        {"-F", "json", "-e", "1000", "--unwinder", "libunwind", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(live_leaks(report), answer.truth);
    for (const auto& stack : report.at("callstacks")) {
        EXPECT_EQ(stack.value("stack_end", ""), "no unwind information") << stack;
        EXPECT_GE(stack.at("frames").size(), 2U) << stack;
    }
    fixture.quit();
}

// A target may have any tables: neither unwinder may take for ever.
TEST(UnwinderOption, AnExpressionThatNeverEndsEndsTheStack) {
    Fixture fixture("endless_rule");
    for (const char* unwinder : {"memleax", "libunwind"}) {
        Memleax memleax(
            {"-F", "json", "-e", "1000", "--unwinder", unwinder, std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        fixture.go();
        const auto report = memleax.interrupt_and_finish().json();
        EXPECT_EQ(live_leaks(report), (Leaks{{"endless_rule", {1, 100}}})) << unwinder;
        for (const auto& stack : report.at("callstacks")) {
            EXPECT_EQ(stack.value("stack_end", ""), "unwind information is not valid")
                << unwinder << stack;
            // arm64's libunwind goes by the link register, once.
            EXPECT_THAT(stack.at("frames").size(), AllOf(Ge(2U), Le(3U))) << unwinder << stack;
        }
    }
    fixture.quit();
}

TEST(UnwinderOption, OwnIsTheDefault) {
    Fixture fixture("expiring");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    EXPECT_THAT(memleax.wait_until_watching(), Not(HasSubstr("unwinder")));
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("session").at("unwinder"), "memleax");
    fixture.quit();
}

/// Commands of which one waits.
class Comparing {
  public:
    explicit Comparing(Fixture& fixture, std::vector<std::string> arguments = {"-e", "1000", "-q"})
        : memleax_(command(fixture, std::move(arguments))) {
        memleax_.wait_until_watching();
    }
    /// Asks, and returns when memleax waits for the call.
    void begin(unsigned id) {
        memleax_.process().send(fmt::format("compare {}", id));
        EXPECT_EQ(
            line(),
            fmt::format("Waiting for the next call with CallStack[{}]; Ctrl-C ends that.", id));
    }
    std::string line() { return memleax_.process().read_line().value_or("(no more lines)"); }
    int quit() {
        memleax_.process().send("quit");
        return memleax_.finish().status;
    }

  private:
    static std::vector<std::string> command(Fixture& fixture, std::vector<std::string> arguments) {
        arguments.emplace_back("-i");
        arguments.push_back(std::to_string(fixture.pid()));
        return arguments;
    }
    Memleax memleax_;
};

constexpr const char* kEqual =
    "CallStack\\[1\\], at a call of thread [0-9]+: the walks of memleax and libunwind are equal, "
    "[0-9]+ frames";

TEST(Command_compare, WalksTheNextCallBothWays) {
    for (const char* name : {"alloc_all-O2-nofp-pie", "alloc_all_cxx-O2-nofp-nopie", "recursion"}) {
        Fixture fixture(name);
        Comparing comparing(fixture);
        fixture.go();
        comparing.begin(1);
        fixture.go();
        EXPECT_THAT(comparing.line(), MatchesRegex(kEqual)) << name;
        EXPECT_EQ(comparing.quit(), 0);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// What it compares with is what the account has: libunwind's own walk.
TEST(Command_compare, GoesWithTheOtherUnwinder) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Comparing comparing(fixture, {"-e", "1000", "-q", "--unwinder", "libunwind"});
    fixture.go();
    comparing.begin(1);
    fixture.go();
    EXPECT_THAT(comparing.line(), MatchesRegex(kEqual));
    comparing.quit();
    fixture.quit();
}

// libunwind does not look for tables in .debug_frame.
TEST(Command_compare, ShowsTheFirstDifference) {
    Fixture fixture("expiring_debug_frame");
    Comparing comparing(fixture);
    fixture.ask("leak");
    comparing.begin(1);
    fixture.ask("leak");
    EXPECT_THAT(
        comparing.line(),
        MatchesRegex("CallStack\\[1\\], at a call of thread [0-9]+: the walks differ from frame "
                     "2 on"));
    EXPECT_THAT(comparing.line(), MatchesRegex(" +memleax +libunwind"));
    EXPECT_THAT(comparing.line(),
                MatchesRegex("     0 (0x[0-9a-f]+  .*malloc.*)  +0x[0-9a-f]+  .*malloc.*"));
    EXPECT_THAT(comparing.line(),
                MatchesRegex("     1 0x[0-9a-f]+  slow_leak .*  +0x[0-9a-f]+  slow_leak .*"));
    EXPECT_THAT(comparing.line(), MatchesRegex("  \\*  2 0x[0-9a-f]+  main .*"));
    std::string last = comparing.line();
    for (int i = 3; i < 5; ++i) { // __libc_start_call_main, __libc_start_main, _start
        EXPECT_THAT(last, Not(HasSubstr("*")));
        last = comparing.line();
    }
    comparing.quit();
    fixture.quit();
}

TEST(Command_compare, EndsWithTheTarget) {
    Fixture fixture("expiring");
    Comparing comparing(fixture);
    fixture.ask("leak");
    comparing.begin(1);
    fixture.ask("hold"); // another one
    EXPECT_EQ(fixture.quit(), 0);
    EXPECT_EQ(comparing.line(), "No call with CallStack[1] has come.");
    EXPECT_EQ(comparing.quit(), 0);
}

TEST(Command_compare, SaysWhatIsWrong) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.error_of("compare"), HasSubstr("the id is missing; usage: compare ID"));
    EXPECT_THAT(commands_of.error_of("compare x"), HasSubstr("usage: compare ID"));
    EXPECT_THAT(commands_of.error_of("compare 99"),
                HasSubstr("there is no call stack 99; try 'stats'"));
    fixture.ask("leak");
    commands_of.run("pause");
    EXPECT_THAT(commands_of.error_of("compare 1"), HasSubstr("watching is paused; try 'resume'"));
    commands_of.run("detach");
    EXPECT_THAT(commands_of.error_of("compare 1"), HasSubstr("the target is not watched any more"));
    commands_of.quit();
    fixture.quit();
}

} // namespace
} // namespace memleax::testing
