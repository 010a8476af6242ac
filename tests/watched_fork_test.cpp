// SPDX-License-Identifier: GPL-3.0-or-later
// --snapshot fork while watching: at the prompt and at the end a forked copy of the process is
// read. What is found is the truth, the watching goes on as before, and the process does not notice
// that it had a child.
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "prompt_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kWhyNot = "is not forked";

class WatchedFork : public ::testing::Test {};

PromptOptions forking(std::vector<std::string> further = {}) {
    std::vector<std::string> arguments{"-e", "1000", "--snapshot", "fork"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return {.arguments = std::move(arguments)};
}

nlohmann::json report_of(PromptOnTerminal& prompt) {
    const std::string file = prompt.folder.file("report.json");
    prompt.run("save json " + file);
    std::ifstream stream(file);
    return nlohmann::json::parse(stream);
}

/// A look by the prompt's command that was no fallback, and what it has found.
nlohmann::json look(PromptOnTerminal& prompt) {
    const std::string leaks = prompt.run("leaks");
    EXPECT_THAT(leaks, AllOf(HasSubstr("definitely lost"), Not(HasSubstr(kWhyNot))));
    return report_of(prompt);
}

struct Way {
    const char* name;
    std::vector<std::string> options;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

class WatchedForkAt : public WatchedFork, public ::testing::WithParamInterface<Way> {};

// It has memory that a fork does not give to a child, and asks for all kinds of children.
TEST_P(WatchedForkAt, ThePromptFindsTheTruthAndIsNotNoticed) {
    Fixture fixture("parent");
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    FixtureAnswer answer;
    {
        PromptOnTerminal prompt(fixture.pid(), forking(GetParam().options));
        const Leaks before = classes_of(look(prompt));
        EXPECT_EQ(before.at("definite"), Leak{});
        const auto noticed = fixture.ask("look").counts;
        answer = fixture.go();
        const int rounds = share_of(5);
        for (int i = 0; i < rounds; ++i) {
            const auto report = look(prompt);
            EXPECT_EQ(difference(classes_of(report), before), answer.truth) << report;
            EXPECT_EQ(children_of(fixture.pid()).size(), 1); // its own
            EXPECT_EQ(fixture.ask("look").counts, noticed);
        }
        EXPECT_EQ(prompt.quit(), 0);
        EXPECT_EQ(fixture.ask("look").counts, noticed);
    }
    EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, WatchedForkAt,
                         ::testing::Values(Way{"alone", {}}, Way{"with_its_children", {"-f"}},
                                           Way{"checked", {"--check"}}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_F(WatchedFork, IsNotNoticedByOneThatWorks) {
    Fixture fixture("parent");
    PromptOnTerminal prompt(fixture.pid(), forking());
    const auto noticed = fixture.ask("look").counts;
    const int rounds = share_of(10);
    for (int i = 0; i < rounds; ++i) {
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        EXPECT_EQ(classes_of(look(prompt)).at("definite"), Leak{});
        fixture.ask("stop");
        EXPECT_EQ(fixture.ask("look").counts, noticed);
    }
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// The copy is none of its children: nothing is told of one, and none has an account.
TEST_F(WatchedFork, IsNoChildToFollow) {
    PromptOnTerminal prompt("lost_blocks", forking({"-f"}));
    prompt.fixture->go();
    const int rounds = share_of(5);
    for (int i = 0; i < rounds; ++i) {
        const std::string leaks = prompt.run("leaks");
        EXPECT_THAT(leaks, AllOf(HasSubstr("definitely lost"), Not(HasSubstr(kWhyNot)),
                                 Not(HasSubstr("child"))));
    }
    EXPECT_EQ(report_of(prompt).at("processes").size(), 1);
    EXPECT_THAT(children_of(prompt.fixture->pid()), IsEmpty());
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// Each has its own copy, and one tracer.
TEST_F(WatchedFork, OfTwoProcessesAtTheEndFindsTheTruthOfBoth) {
    Fixture first("parent");
    Fixture second("lost_blocks");
    Leaks before;
    for (const Fixture* fixture : {&first, &second}) {
        const auto alone =
            Memleax({"--leak-check", "-F", "json", std::to_string(fixture->pid())}).finish();
        for (const auto& [name, leak] : classes_of(alone.json())) {
            before[name].blocks += leak.blocks;
            before[name].bytes += leak.bytes;
        }
    }
    Memleax memleax({"--leak-check", "-t", "1000", "--snapshot", "fork", "-F", "json",
                     std::to_string(first.pid()), std::to_string(second.pid())});
    memleax.wait_until_watching();
    Leaks truth = first.go().truth;
    for (const auto& [name, leak] : second.go().truth) {
        truth[name].blocks += leak.blocks;
        truth[name].bytes += leak.bytes;
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_THAT(result.errors, Not(HasSubstr(kWhyNot)));
    EXPECT_EQ(difference(classes_of(result.json()), before), truth) << result.errors;
    EXPECT_THAT(children_of(second.pid()), IsEmpty());
    EXPECT_EQ(first.ask("look").counts.at("others"), 0);
    EXPECT_EQ(first.quit(), 0);
    EXPECT_EQ(second.quit(), 0);
}

TEST_F(WatchedFork, TheWatchingGoesOnAsBefore) {
    PromptOnTerminal prompt("threads16", forking());
    FixtureAnswer answer;
    const int rounds = share_of(8);
    for (int i = 0; i < rounds; ++i) {
        answer = prompt.fixture->go();
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_THAT(prompt.run("leaks"),
                    AllOf(HasSubstr("definitely lost"), Not(HasSubstr(kWhyNot))));
    }
    expect_truth(report_of(prompt), answer);
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// All of them may stand at breakpoints.
TEST_F(WatchedFork, NoBlockOfThreadsInMallocIsLost) {
    PromptOnTerminal prompt("malloc_race", forking());
    int looks = 0;
    const int rounds = share_of(20);
    for (int i = 0; i < rounds; ++i) {
        const std::string leaks = prompt.run("leaks");
        EXPECT_THAT(leaks, Not(HasSubstr(kWhyNot)));
        if (leaks.find("definitely lost") != std::string::npos) {
            ++looks;
            EXPECT_THAT(leaks, HasSubstr("definitely lost:            0 B in 0 blocks"));
            EXPECT_THAT(leaks, HasSubstr("indirectly lost:            0 B in 0 blocks"));
        }
        EXPECT_THAT(children_of(prompt.fixture->pid()), IsEmpty());
    }
    EXPECT_GT(looks, 0);
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST_F(WatchedFork, SaysOnceWhyNot) {
    Fixture fixture(CommandLine{{fixture_path("filtered"), fixture_path("lost_blocks")}});
    PromptOnTerminal prompt(fixture.pid(), forking());
    fixture.go();
    const std::string leaks = prompt.run("leaks");
    EXPECT_THAT(leaks, HasSubstr("definitely lost"));
    const std::string line = fmt::format(
        "process {} stands still while its memory is copied, and is not forked: it has a seccomp "
        "filter, which its children have, too",
        fixture.pid());
    EXPECT_THAT(leaks, ContainsRegex(line + "[\r\n]")) << "without an errno";
    for (const char* again : {"leaks", "heap", "leaks"}) {
        EXPECT_THAT(prompt.run(again), Not(HasSubstr(kWhyNot)));
    }
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// By default a small process is copied, which takes no longer; a larger one is to be forked, and
// here cannot be.
TEST_F(WatchedFork, IsTheDefaultForWhatIsNotSmall) {
    const auto says_why_not = [](const char* megabytes, const PromptOptions& options) {
        Fixture fixture(CommandLine{{fixture_path("filtered"), fixture_path("grower")}});
        fixture.ask(std::string("grow ") + megabytes);
        PromptOnTerminal prompt(fixture.pid(), options);
        const std::string leaks = prompt.run("leaks");
        EXPECT_THAT(leaks, HasSubstr("definitely lost"));
        EXPECT_EQ(prompt.quit(), 0);
        EXPECT_EQ(fixture.quit(), 0);
        return leaks.find(kWhyNot) != std::string::npos;
    };
    EXPECT_FALSE(says_why_not("1", {}));
    EXPECT_TRUE(says_why_not("1", forking()));
    EXPECT_TRUE(says_why_not("30", {}));
    EXPECT_FALSE(says_why_not("30", {.arguments = {"--snapshot", "copy"}}));
}

TEST_F(WatchedFork, MakesNoPageFaultsWhereThoseAreTracked) {
    Fixture fixture("lost_blocks");
    PromptOnTerminal prompt(fixture.pid(), forking({"--track", "faults"}));
    fixture.go();
    EXPECT_THAT(prompt.run("leaks"),
                AllOf(HasSubstr("definitely lost"), HasSubstr(kWhyNot), HasSubstr("page faults")));
    EXPECT_THAT(prompt.run("leaks"), Not(HasSubstr(kWhyNot)));
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
