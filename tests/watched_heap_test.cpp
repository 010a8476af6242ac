// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at the heap of a process that is being watched: at the end, and by the prompt's commands,
// after which the watching goes on as before.
#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "commands_support.hpp"
#include "leaks_support.hpp"
#include "process_support.hpp"
#include "prompt_support.hpp"
#include "share_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class WatchedHeap : public ::testing::Test {};

std::string word_after(const FixtureAnswer& answer, const std::string& word) {
    for (const std::string& line : answer.other) {
        if (line.starts_with(word + " ")) {
            return line.substr(word.size() + 1);
        }
    }
    ADD_FAILURE() << "no " << word;
    return "";
}

int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The fixture, and --snapshot's WAY.
class WatchedHeapOf : public WatchedHeap,
                      public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(WatchedHeapOf, EachBlockIsInItsClassAndLostOnesHaveTheirStacks) {
    const auto [name, way] = GetParam();
    if (!is_built(name)) {
        GTEST_SKIP() << name << " could not be built here";
    }
    Fixture fixture(name);
    const auto first =
        Memleax({"--leak-check", "-F", "json", std::to_string(fixture.pid())}).finish();
    const Leaks before = classes_of(first.json());
    Memleax memleax({"--leak-check", "-t", "1000", "-F", "json", "--error-exitcode", "9",
                     "--errors-for", "lost", "--snapshot", way, std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(exit_status(result.status), 9) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("is not forked")));
    const auto report = result.json();
    EXPECT_EQ(difference(classes_of(report), before), answer.truth) << result.errors;
    Leaks with_stacks;
    for (const auto& record : report.at("leak_check").at("records")) {
        const std::string loss = record.at("class");
        if (loss != "definite" && loss != "indirect") {
            continue;
        }
        ASSERT_TRUE(record.contains("frames")) << record;
        EXPECT_EQ(allocating_function(record), "give") << record;
        with_stacks[loss].blocks += record.at("blocks").get<std::int64_t>();
        with_stacks[loss].bytes += record.at("bytes").get<std::int64_t>();
    }
    EXPECT_EQ(with_stacks.at("definite"), answer.truth.at("definite"));
    EXPECT_EQ(with_stacks.at("indirect"), answer.truth.at("indirect"));
    for (const auto& stack : report.at("callstacks")) {
        const std::string functions = own_functions(stack);
        const bool loses = functions.find("lose_") != std::string::npos;
        EXPECT_TRUE(!loses || stack.at("verdict") == "lost") << stack;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, WatchedHeapOf,
                         ::testing::Combine(::testing::Values("lost_blocks", "musl-lost_blocks",
                                                              "musl-dynamic-lost_blocks"),
                                            ::testing::Values("copy", "fork")),
                         [](const auto& instance) {
                             std::string name = std::string(std::get<0>(instance.param)) + "_" +
                                                std::get<1>(instance.param);
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// Live blocks of each function are still what the fixture says, and those that were freed, after
// many looks.
TEST_F(WatchedHeap, TheWatchingGoesOnAsBefore) {
    PromptOnTerminal prompt("threads16");
    FixtureAnswer answer;
    const int rounds = share_of(8);
    for (int i = 0; i < rounds; ++i) {
        answer = prompt.fixture->go();
        EXPECT_THAT(answer.failures, IsEmpty());
        const std::string leaks = prompt.run("leaks");
        EXPECT_THAT(leaks, HasSubstr("definitely lost"));
    }
    const std::string file = prompt.folder.file("report.json");
    prompt.run("save json " + file);
    std::ifstream stream(file);
    expect_truth(nlohmann::json::parse(stream), answer);
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// What was lost at the last look need not be at this one.
TEST_F(WatchedHeap, ABlockIsInTheClassThatItsPointerGivesItNow) {
    Fixture fixture("leak_cases", {"moving"});
    PromptOnTerminal prompt(fixture.pid(), {});
    for (int i = 0; i < 6; ++i) {
        const Leak definite = fixture.go().truth.at("definite");
        EXPECT_THAT(prompt.run("leaks"),
                    HasSubstr(fmt::format("definitely lost: {:>12} B in {} block", definite.bytes,
                                          definite.blocks)));
    }
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// Nobody may say of a block that was freed that it is lost, whatever a look said before.
TEST_F(WatchedHeap, AnOldLookSaysNothingOfWhatWasFreedSince) {
    Fixture fixture("leak_cases", {"freed_since"});
    const test::TemporaryFolder folder;
    const std::string file = folder.file("report.json");
    Commands commands(fixture.pid(),
                      {"-e", "1000", "-q", "-F", "json", "-o", file, "--error-exitcode", "9"});
    EXPECT_EQ(fixture.go().truth.at("definite").blocks, 10);
    EXPECT_THAT(commands.output_of("leaks"), HasSubstr(" in 10 blocks\n indirectly"));
    EXPECT_EQ(fixture.go().truth.at("definite").blocks, 0);
    const auto result = commands.quit();
    EXPECT_EQ(exit_status(result.status), 0);
    std::ifstream stream(file);
    const auto report = nlohmann::json::parse(stream);
    EXPECT_EQ(report.at("leak_check").at("definite").at("blocks"), 0) << report;
    EXPECT_TRUE(report.at("leak_check").contains("age_s"));
    EXPECT_EQ(fixture.quit(), 0);
}

void expect_nothing_lost(PromptOnTerminal& prompt) {
    int looks = 0;
    const int rounds = share_of(20);
    for (int i = 0; i < rounds; ++i) {
        const std::string leaks = prompt.run("leaks");
        if (leaks.find("definitely lost") != std::string::npos) {
            ++looks;
            EXPECT_THAT(leaks, HasSubstr("definitely lost:            0 B in 0 blocks"));
            EXPECT_THAT(leaks, HasSubstr("indirectly lost:            0 B in 0 blocks"));
        }
    }
    EXPECT_GT(looks, 0);
    EXPECT_EQ(prompt.quit(), 0);
}

TEST_F(WatchedHeap, NoBlockOfThreadsInMallocIsLost) {
    PromptOnTerminal prompt("malloc_race");
    expect_nothing_lost(prompt);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST_F(WatchedHeap, NoBlockOfThreadsInMuslsMallocIsLost) {
    if (!is_built("musl-malloc_race")) {
        GTEST_SKIP() << "musl is not there";
    }
    Fixture fixture("musl-malloc_race", {"3"});
    PromptOnTerminal prompt(fixture.pid(), {});
    expect_nothing_lost(prompt);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(WatchedHeap, HoldersAreNamed) {
    PromptOnTerminal prompt("held_blocks", {.size = {100, 200}});
    FixtureAnswer answer = prompt.fixture->go();
    answer = prompt.fixture->go();
    const std::string newest = word_after(answer, "newest");
    const std::string oldest = word_after(answer, "oldest");
    const Leak sessions = answer.truth.at("shop::open_session");
    ASSERT_EQ(sessions.blocks, 6);
    const std::string list = prompt.run("why " + oldest);
    EXPECT_THAT(list, AllOf(HasSubstr("still reachable"),
                            HasSubstr("    shop::g_sessions, held_blocks.cpp\n    -> " + newest),
                            HasSubstr(", shop::Session, CallStack["), HasSubstr(", +8\n"),
                            HasSubstr("Without it there would be lost: 1 block, ")))
        << list;
    EXPECT_THAT(prompt.run("why " + newest),
                HasSubstr("Without it there would be lost: 6 blocks, "));
    EXPECT_THAT(prompt.run("refs " + newest),
                AllOf(HasSubstr("shop::g_sessions, held_blocks.cpp\n"), Not(HasSubstr("into it"))));
    EXPECT_THAT(prompt.run("show " + newest), HasSubstr("held by shop::g_sessions"));
    EXPECT_THAT(prompt.run("heap by holder"),
                AllOf(HasSubstr("6  shop::g_sessions, held_blocks.cpp\n"),
                      HasSubstr("5  shop::g_table, held_blocks.cpp\n")));
    EXPECT_THAT(prompt.run("heap by type"), HasSubstr("6  shop::Session\n"));
    EXPECT_THAT(prompt.run("heap by stack"), HasSubstr("shop::open_session (held_blocks.cpp:"));
    prompt.fixture->go();
    prompt.run("heap by type");
    EXPECT_THAT(prompt.run("since heap2"), HasSubstr("+3  shop::Session\n"));
    const std::string leaks = prompt.run("leaks");
    EXPECT_THAT(leaks, HasSubstr("definitely lost: 3 blocks of 40 bytes"));
    EXPECT_THAT(leaks, HasSubstr("shop::lose_block"));
    EXPECT_THAT(prompt.run("stats"), HasSubstr("lost"));
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

// The last look fails, and what the one before has found is still worth having.
TEST_F(WatchedHeap, AnEarlierLookIsToldIfTheLastOneFails) {
    const test::TemporaryFolder folder;
    const std::string file = folder.file("report.json");
    Fixture fixture("held_blocks");
    Memleax memleax(
        {"-i", "-q", "--leak-check", "-F", "json", "-o", file, std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    memleax.process().send("leaks");
    memleax.process().send("save text " + folder.file("saved"));
    const auto wait_for = [&memleax](const char* text) {
        for (std::string line; line.find(text) == std::string::npos;) {
            const auto next = memleax.process().read_line();
            ASSERT_TRUE(next) << memleax.process().state();
            line = *next;
        }
    };
    wait_for("written to"); // the look was before
    EXPECT_EQ(fixture.quit(), 0);
    wait_for("The target has ended");
    memleax.process().send("quit");
    memleax.finish();
    std::ifstream stream(file);
    const auto found = nlohmann::json::parse(stream).at("leak_check");
    EXPECT_TRUE(found.at("complete"));
    EXPECT_THAT(found.at("why").get<std::string>(), HasSubstr("it has ended"));
    EXPECT_TRUE(found.contains("definite"));
}

TEST_F(WatchedHeap, AProcessThatHasEndedIsNotLookedAt) {
    const test::TemporaryFolder folder;
    const std::string file = folder.file("report.json"); // the fixture has stdout
    Memleax memleax({"--leak-check", "-F", "json", "-o", file, "--", fixture_path("held_blocks")});
    memleax.wait_until_watching();
    memleax.let_fixture_go();
    memleax.quit_fixture_and_finish();
    std::ifstream stream(file);
    const auto found = nlohmann::json::parse(stream).at("leak_check");
    EXPECT_FALSE(found.at("complete"));
    EXPECT_THAT(found.at("why").get<std::string>(), HasSubstr("it has ended"));
    EXPECT_FALSE(found.contains("definite"));
}

} // namespace
} // namespace memleax::testing
