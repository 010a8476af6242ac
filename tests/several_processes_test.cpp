// SPDX-License-Identifier: GPL-3.0-or-later
// Several processes at once: by number, by name, and children that were there before us. Each has
// an account of its own, and each is left as it was found.
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands_support.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string text_of(pid_t pid) {
    return std::to_string(pid);
}

/// Live blocks and bytes of a process in a report.
Leak live_of(const nlohmann::json& report, pid_t pid) {
    Leak sum;
    for (const auto& stack : report.at("callstacks")) {
        if (stack.at("pid") == pid) {
            sum.blocks += stack.at("live_blocks").get<std::int64_t>();
            sum.bytes += stack.at("live_bytes").get<std::int64_t>();
        }
    }
    return sum;
}

TEST(Several, HaveAnAccountEach) {
    Fixture one("expiring");
    Fixture two("expiring");
    Fixture three("threads16");
    const TargetSnapshot before = take_snapshot(one.pid());
    Memleax memleax({"-F", "json", "-e", "1000", text_of(one.pid()), "-p", text_of(two.pid()),
                     "--pid", text_of(three.pid()), text_of(one.pid())});
    EXPECT_THAT(memleax.wait_until_watching(),
                HasSubstr(fmt::format("watching 3 processes: {} (expiring), {} (expiring), {} (",
                                      one.pid(), two.pid(), three.pid())));
    one.ask("leak");
    two.ask("leak");
    two.ask("leak");
    const FixtureAnswer threads = three.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    EXPECT_EQ(report.at("processes").size(), 3U);
    EXPECT_EQ(report.at("target").at("pid"), one.pid());
    EXPECT_EQ(live_of(report, one.pid()), (Leak{1, 101}));
    EXPECT_EQ(live_of(report, two.pid()), (Leak{2, 202}));
    Leak truth;
    for (const auto& [function, leak] : threads.truth) {
        truth.blocks += leak.blocks;
        truth.bytes += leak.bytes;
    }
    EXPECT_EQ(live_of(report, three.pid()), truth);
    EXPECT_EQ(report.at("totals").at("live_blocks"), 3 + truth.blocks);
    EXPECT_THAT(differences(before, take_snapshot(one.pid()), Meanwhile::worked), IsEmpty());
    for (Fixture* fixture : {&one, &two, &three}) {
        EXPECT_EQ(fixture->quit(), 0);
    }
}

// Of each process in its own part of the report.
TEST(Several, HaveALeakCheckEach) {
    Fixture one("lost_blocks");
    Fixture two("expiring");
    const FixtureAnswer answer = one.go();
    const auto result =
        Memleax({"--leak-check", "-t", "0.2", text_of(one.pid()), text_of(two.pid())}).finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::string& text = result.output;
    const auto first = text.find(fmt::format("\n== Process {} (lost_blocks, ", one.pid()));
    const auto second = text.find(fmt::format("\n== Process {} (expiring, ", two.pid()));
    const auto sum = text.find("\n== Leak check of all 2 processes:\n");
    ASSERT_TRUE(first < second && second < sum && sum != std::string::npos) << text;
    const std::string of_one = text.substr(first, second - first);
    const std::string of_two = text.substr(second, sum - second);
    const auto lost = fmt::format(" in {} blocks\n", answer.truth.at("definite").blocks);
    EXPECT_THAT(of_one, AllOf(HasSubstr("\n== Leak check ("), HasSubstr(lost),
                              HasSubstr("\ndefinitely lost: ")));
    EXPECT_THAT(of_two, AllOf(HasSubstr("\n== Leak check ("), Not(HasSubstr(lost)),
                              Not(HasSubstr("\ndefinitely lost: "))));
    EXPECT_THAT(text.substr(sum), AllOf(HasSubstr(lost), Not(HasSubstr("\ndefinitely lost: "))));
    EXPECT_EQ(one.quit(), 0);
    EXPECT_EQ(two.quit(), 0);
}

TEST(Several, OneThatCannotBeWatchedIsToldOf) {
    Fixture fixture("expiring");
    for (const bool first : {false, true}) {
        std::vector<std::string> arguments{"-F", "json", "-e", "1000"};
        arguments.push_back(first ? "1073741824" : text_of(fixture.pid()));
        arguments.push_back(first ? text_of(fixture.pid()) : "1073741824");
        Memleax memleax(arguments);
        EXPECT_THAT(memleax.wait_until_watching(),
                    HasSubstr(fmt::format("watching {} (expiring, 1 thread", fixture.pid())));
        fixture.ask("leak");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0);
        EXPECT_THAT(result.errors, HasSubstr("warning: no such process: 1073741824"));
        EXPECT_EQ(result.json().at("target").at("pid"), fixture.pid());
        EXPECT_EQ(result.json().at("processes").size(), 1U);
        EXPECT_EQ(live_of(result.json(), fixture.pid()), (Leak{1, 101}));
    }
    Memleax none({"1073741824", "1073741823"});
    const auto result = none.finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("no such process: 1073741824"));
    EXPECT_THAT(result.errors, HasSubstr("no such process: 1073741823"));
    EXPECT_THAT(result.errors, HasSubstr("error: none of the processes can be watched"));
    EXPECT_EQ(fixture.quit(), 0);
}

// It is found out when all of its threads are seized already, and nobody would let them go on.
TEST(Several, OneThatFailsAfterItsSeizureWorksOn) {
    for (const bool first : {false, true}) {
        Fixture good("expiring");
        Fixture bad("threads16");
        const rlimit full{4096, RLIM_INFINITY}; // nothing can be mapped in it
        ASSERT_EQ(prlimit(bad.pid(), RLIMIT_AS, &full, nullptr), 0);
        const TargetSnapshot before = take_snapshot(bad.pid());
        std::vector<std::string> pids{text_of(good.pid()), text_of(bad.pid())};
        if (first) {
            std::swap(pids[0], pids[1]);
        }
        Memleax memleax({"-F", "json", "-e", "1000", pids[0], pids[1]});
        memleax.wait_until_watching();
        const rlimit usual{RLIM_INFINITY, RLIM_INFINITY};
        ASSERT_EQ(prlimit(bad.pid(), RLIMIT_AS, &usual, nullptr), 0);
        // Each of its threads wakes, gets a signal that stops it for its tracer, allocates.
        for (const auto& [tid, thread] : before.threads) {
            ASSERT_EQ(tgkill(bad.pid(), tid, SIGWINCH), 0);
        }
        EXPECT_THAT(bad.go().failures, IsEmpty());
        good.ask("leak");
        ASSERT_EQ(kill(bad.pid(), SIGSTOP), 0);
        ASSERT_EQ(kill(bad.pid(), SIGCONT), 0);
        EXPECT_THAT(bad.go().failures, IsEmpty());
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0);
        EXPECT_THAT(result.errors,
                    HasSubstr(fmt::format("warning: cannot watch process {}", bad.pid())));
        EXPECT_EQ(live_of(result.json(), good.pid()), (Leak{1, 101}));
        EXPECT_EQ(result.json().at("processes").size(), 1U);
        EXPECT_THAT(differences(before, take_snapshot(bad.pid()), Meanwhile::worked), IsEmpty());
        EXPECT_EQ(good.quit(), 0);
        EXPECT_EQ(bad.quit(), 0);
    }
}

TEST(Several, TheEndOfOneIsToldAndTheOthersGoOn) {
    Fixture one("expiring");
    Fixture two("expiring");
    Memleax memleax({"-F", "json", "-e", "1000", text_of(one.pid()), text_of(two.pid())});
    memleax.wait_until_watching();
    EXPECT_EQ(one.quit(), 0);
    ASSERT_TRUE(memleax.process().find_error_line(
        fmt::format("process {} has ended: exit status 0", one.pid())));
    two.ask("leak");
    EXPECT_EQ(two.quit(), 0);
    const auto result = memleax.finish();
    EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit");
    EXPECT_EQ(result.json().at("session").at("events").at("alloc"), 1);
}

// One after the other, and the watching begins with the last of them.
TEST(Several, ThoseThatWereThereAreWatchedFromTheBeginOn) {
    Fixture one("expiring");
    Fixture two("expiring");
    Memleax memleax({"-F", "json", "-e", "1000", text_of(one.pid()), text_of(two.pid())});
    memleax.wait_until_watching();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("processes").size(), 2U);
    for (const auto& process : report.at("processes")) {
        EXPECT_EQ(process.at("begin_s"), 0);
    }
}

TEST(Several, StatsSaysWhoseBlocksItMeans) {
    Fixture one("expiring");
    Fixture two("expiring");
    Commands commands_of(two.pid(), {"-q", text_of(one.pid())}); // the first one is meant
    EXPECT_EQ(commands_of.output_of("stats"),
              fmt::format("No live blocks of process {} are known yet; 'processes' lists the "
                          "others.\n",
                          one.pid()));
    commands_of.quit();
}

TEST(Several, APauseIsForAll) {
    Fixture one("expiring");
    Fixture two("expiring");
    const TargetSnapshot before = take_snapshot(two.pid());
    Memleax memleax(
        {"-i", "-q", "-F", "json", "-e", "1000", text_of(one.pid()), text_of(two.pid())});
    memleax.wait_until_watching();
    memleax.process().send("pause");
    ASSERT_TRUE(memleax.process().find_error_line("All breakpoints are out."));
    EXPECT_THAT(differences(before, take_snapshot(two.pid()), Meanwhile::worked), IsEmpty());
    memleax.process().send("resume");
    ASSERT_TRUE(memleax.process().find_error_line("is being watched again"));
    one.ask("leak");
    two.ask("leak");
    memleax.process().send("quit");
    const auto report = memleax.finish().json();
    EXPECT_EQ(live_of(report, one.pid()), (Leak{1, 101}));
    EXPECT_EQ(live_of(report, two.pid()), (Leak{1, 101}));
}

/// Programs under a name of their own, which nobody else has.
class ByName : public ::testing::Test {
  protected:
    ByName() { std::filesystem::copy_file(fixture_path("expiring"), program_); }
    test::TemporaryFolder folder_;
    std::string name_ = fmt::format("mlx{}", getpid());
    std::string program_ = folder_.file(name_ + "x");
};

TEST_F(ByName, AllThatMatchAreWatched) {
    Fixture one(CommandLine{{program_}});
    Fixture two(CommandLine{{program_}});
    for (const std::string& pattern :
         {name_, "^" + name_ + "x$", "lx" + text_of(getpid()) + "[xy]"}) {
        Memleax memleax({"-F", "json", "-e", "1000", "--name", pattern});
        memleax.wait_until_watching();
        one.ask("leak");
        two.ask("leak");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_THAT(result.errors, HasSubstr(fmt::format("'{}' matches 2 processes: ", pattern)));
        EXPECT_EQ(live_of(result.json(), one.pid()), (Leak{1, 101})) << pattern;
        EXPECT_EQ(live_of(result.json(), two.pid()), (Leak{1, 101})) << pattern;
    }
    EXPECT_EQ(two.quit(), 0);
    Memleax memleax({"-F", "json", "--name", name_});
    EXPECT_THAT(memleax.wait_until_watching(),
                HasSubstr(fmt::format("watching {} ({}x, 1 thread", one.pid(), name_)));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_THAT(result.errors, Not(HasSubstr("matches")));
    EXPECT_FALSE(result.json().contains("processes"));
}

TEST_F(ByName, NoneIsAnError) {
    Fixture fixture(CommandLine{{program_}});
    for (const std::string& pattern : {name_ + "y", "^lx" + text_of(getpid())}) {
        Memleax memleax({"--name", pattern});
        const auto result = memleax.finish();
        EXPECT_EQ(WEXITSTATUS(result.status), 1);
        EXPECT_THAT(
            result.errors,
            HasSubstr(fmt::format("no process has a name that matches '{}' (--name)", pattern)));
    }
    Memleax memleax({"--name", "a_name_that_is_longer_than_any"});
    EXPECT_THAT(memleax.finish().errors, HasSubstr("names have 15 characters at most"));
    EXPECT_EQ(fixture.quit(), 0);
}

/// "family", and the children that it has had before anybody came; they allocate all the time.
class Children : public ::testing::Test {
  protected:
    Children() {
        fixture_.process().send("outlive");
        while (children_.size() < 3) {
            const auto line = fixture_.process().read_line();
            if (!line) {
                throw std::runtime_error("the family has ended");
            }
            if (line->starts_with("process ")) {
                children_.push_back(std::atoi(line->c_str() + 8));
            }
        }
    }
    /// All of them end, and say that they are well.
    void end() {
        fixture_.process().send("open");
        std::optional<std::string> line;
        while ((line = fixture_.process().read_line()) && *line != "count unwell 0") {
            EXPECT_THAT(*line, Not(HasSubstr("unwell")));
        }
        EXPECT_TRUE(line);
        EXPECT_EQ(fixture_.quit(), 0);
    }
    void expect_untouched(const std::set<std::string>& code) {
        std::vector<pid_t> all = children_;
        all.push_back(fixture_.pid());
        for (const pid_t pid : all) {
            const TargetSnapshot after = take_snapshot(pid);
            EXPECT_EQ(code_of(after), code);
            for (const auto& [tid, thread] : after.threads) {
                EXPECT_EQ(thread.tracer, 0);
            }
        }
    }
    Fixture fixture_{"family"};
    std::vector<pid_t> children_;
};

TEST_F(Children, AreWatchedIfTheyAreThere) {
    const auto code = code_of(take_snapshot(fixture_.pid()));
    Memleax memleax({"--children", "-F", "json", "-e", "1000", text_of(fixture_.pid())});
    EXPECT_THAT(memleax.wait_until_watching(),
                HasSubstr(fmt::format("watching 4 processes: {} (family)", fixture_.pid())));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_untouched(code);
    const auto report = result.json();
    EXPECT_EQ(report.at("processes").size(), 4U);
    for (const auto& process : report.at("processes")) {
        if (process.at("pid") != fixture_.pid()) {
            EXPECT_THAT(children_, ::testing::Contains(process.at("pid").get<pid_t>()));
            EXPECT_EQ(process.at("parent_pid"), fixture_.pid());
            EXPECT_EQ(process.at("events").at("double_free"), 0);
        }
    }
    end();
}

TEST_F(Children, AreNotWatchedUnasked) {
    Memleax memleax({"-f", "-F", "json", "-e", "1000", text_of(fixture_.pid())});
    memleax.wait_until_watching();
    EXPECT_EQ(memleax.interrupt_and_finish().json().at("processes").size(), 1U);
    end();
}

// At any moment: while one after the other is begun with, watched, or left.
TEST_F(Children, AreAsTheyWereAfterOurDeath) {
    const auto code = code_of(take_snapshot(fixture_.pid()));
    Stress stress(10);
    while (stress.next()) {
        Memleax memleax({"--children", "-q", "-e", "1000", text_of(fixture_.pid())});
        if (stress.number_to(3) == 1) {
            memleax.wait_until_watching();
        }
        usleep(static_cast<useconds_t>(stress.number_to(100'000))); // where it is hit
        memleax.process().signal(SIGKILL);
        const auto result = memleax.finish(); // until the guardian has ended, too
        SCOPED_TRACE(result.errors);
        EXPECT_EQ(result.status, SIGKILL);
        expect_untouched(code);
    }
    end();
}

TEST_F(Children, AreAsTheyWereAfterEachVisit) {
    const auto code = code_of(take_snapshot(fixture_.pid()));
    Stress stress(10);
    while (stress.next()) {
        Memleax memleax({"--children", "-f", "-q", "-e", "1000", text_of(fixture_.pid())});
        memleax.wait_until_watching();
        EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
        expect_untouched(code);
    }
    end();
}

} // namespace
} // namespace memleax::testing
