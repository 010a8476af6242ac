// SPDX-License-Identifier: GPL-3.0-or-later
// Every command, through `memleax -i PID < pipe`, rightly and wrongly used, against fixtures that
// know the truth.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/cli/command.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// Sends commands down a pipe, and reads what each answers.
class Commands {
  public:
    explicit Commands(pid_t target, std::vector<std::string> arguments = {"-e", "1000", "-q"})
        : memleax_(with(std::move(arguments), target), {{"SHELL", "/bin/sh"}}) {
        memleax_.wait_until_watching();
    }

    /// What the command prints, on stdout and on stderr.
    struct Answer {
        std::string output;
        std::string error;
    };
    Answer run(const std::string& line) {
        ++count_;
        const std::string end = fmt::format("end of answer {}", count_);
        ChildProcess& process = memleax_.process();
        process.send(line);
        // One more command, whose output and error come last.
        process.send(fmt::format("shell echo {0}; echo {0} >&2", end));
        Answer answer;
        for (auto each = process.read_line(); each != end; each = process.read_line()) {
            if (!each) {
                throw std::runtime_error("memleax has ended: " + process.errors());
            }
            answer.output += *each + "\n";
        }
        const std::size_t before = errors_;
        process.find_error_line(end);
        errors_ = process.errors().find(end, before);
        answer.error = process.errors().substr(before, errors_ - before);
        errors_ += end.size() + 1;
        return answer;
    }
    std::string output_of(const std::string& line) {
        const Answer answer = run(line);
        EXPECT_EQ(answer.error.find("memleax: error"), std::string::npos) << answer.error;
        return answer.output;
    }
    /// The message of one that is wrong, and that prints nothing.
    std::string error_of(const std::string& line) {
        const Answer answer = run(line);
        EXPECT_EQ(answer.output, "") << line;
        const auto at = answer.error.find("memleax: error: ");
        return at == std::string::npos ? "(none) " + answer.error
                                       : answer.error.substr(at, answer.error.find('\n', at) - at);
    }
    Memleax& memleax() { return memleax_; }
    Memleax::Result quit() {
        memleax_.process().send("quit");
        return memleax_.finish();
    }

  private:
    static std::vector<std::string> with(std::vector<std::string> arguments, pid_t target) {
        arguments.insert(arguments.begin(), "-i");
        arguments.push_back(std::to_string(target));
        return arguments;
    }
    Memleax memleax_;
    int count_ = 0;
    std::size_t errors_ = 0; ///< of stderr, read by run()
};

std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The words of the first line that begins with this one.
std::vector<std::string> words_of_line(const std::string& text, const std::string& first) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream stream(line);
        std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
        if (!words.empty() && words[0] == first) {
            return words;
        }
    }
    return {};
}

// The suites of this program are called after the commands.
TEST(CommandTable, HasATestForEachCommand) {
    std::set<std::string> suites;
    const auto& all = *::testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        suites.insert(all.GetTestSuite(i)->name());
    }
    for (const Command& command : commands()) {
        EXPECT_TRUE(suites.contains("Command_" + std::string(command.name))) << command.name;
    }
}

TEST(CommandTable, IsSortedAndSaysWhatEachDoes) {
    EXPECT_TRUE(std::is_sorted(commands().begin(), commands().end(),
                               [](const Command& a, const Command& b) { return a.name < b.name; }));
    for (const Command& command : commands()) {
        EXPECT_FALSE(command.summary.empty()) << command.name;
        EXPECT_FALSE(command.summary.ends_with('.')) << command.name;
        EXPECT_NE(command.run, nullptr) << command.name;
    }
}

// An argument too much is an error everywhere, and the message has the usage in it.
TEST(CommandTable, NoCommandTakesWhatIsTooMuch) {
    Fixture fixture("expiring");
    fixture.ask("leak");
    Commands commands_of(fixture.pid());
    for (const Command& command : commands()) {
        if (command.name == "shell") { // a shell takes anything
            continue;
        }
        const std::string error =
            commands_of.error_of(std::string(command.name) + " 77 78 79 80 81");
        EXPECT_THAT(error, HasSubstr("memleax: error: ")) << command.name;
        EXPECT_TRUE(error.find("usage: " + usage_of(command)) != std::string::npos ||
                    error.find("try ") != std::string::npos)
            << command.name << ": " << error;
    }
    EXPECT_THAT(commands_of.error_of("status 'a b"), HasSubstr("the quote ' is not closed"));
    commands_of.quit();
}

TEST(Command_help, ExplainsAll) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    const std::string all = commands_of.output_of("help");
    for (const Command& command : commands()) {
        EXPECT_THAT(all, HasSubstr(usage_of(command)));
        const std::string one = commands_of.output_of("help " + std::string(command.name));
        EXPECT_THAT(one, StartsWith(usage_of(command) + "\n    " + std::string(command.summary)));
    }
    EXPECT_THAT(commands_of.error_of("help nothing"), HasSubstr("no command 'nothing'"));
    EXPECT_THAT(commands_of.error_of("help help help"), HasSubstr("'help' is too much"));
    commands_of.quit();
}

TEST(Command_processes, ListsWhatIsWatched) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Commands commands_of(fixture.pid(), {"-q"});
    EXPECT_THAT(commands_of.output_of("processes"), HasSubstr(fmt::format("{}", fixture.pid())));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_process, TellsWhichOne) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Commands commands_of(fixture.pid(), {"-q"});
    const std::string one = fmt::format("Process 1 is {} (", fixture.pid());
    EXPECT_THAT(commands_of.output_of("process"), HasSubstr(one));
    EXPECT_THAT(commands_of.output_of("process 1"), HasSubstr(one));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_status, HasTheTotals) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    Commands commands_of(fixture.pid(), {"-e", "0.01", "-q", "-m", "0"});
    const FixtureAnswer truth = fixture.go();
    Leak sum;
    for (const auto& [function, leak] : truth.truth) {
        sum.blocks += leak.blocks;
        sum.bytes += leak.bytes;
    }
    commands_of.run("stats"); // time passes for the expiry
    std::string status;
    const std::string live = fmt::format("live        {} blocks, ", sum.blocks);
    const std::string expired = fmt::format("expired     {} blocks, ", sum.blocks);
    do { // it is a matter of 10 ms
        status = commands_of.output_of("status");
        ASSERT_THAT(status, HasSubstr(live));
    } while (status.find(expired) == std::string::npos);
    EXPECT_THAT(status, HasSubstr(fmt::format("target      {} (", fixture.pid())));
    EXPECT_THAT(status, HasSubstr("threads     1\n"));
    EXPECT_THAT(status, HasSubstr(", engine " + engine_under_test() + ", expiry after 0.01 s"));
    EXPECT_THAT(status,
                HasSubstr(" 0 failed, 0 not followed, 0 frees of unknown blocks, 0 double frees"));
    EXPECT_THAT(status, ContainsRegex("memory      RSS [0-9.]+ [KM]iB \\([+-].*\\), PSS "));
    EXPECT_THAT(status, ContainsRegex("coverage    RSS [+-][0-9.]+ [KM]?i?B, watched blocks \\+"));
    EXPECT_THAT(status, ContainsRegex("faults      [0-9]+ minor"));
    EXPECT_THAT(status, ContainsRegex("limits      OOM score [0-9]+ of 2000, "));
    EXPECT_THAT(status, ContainsRegex("memleax     .* of CPU time.*, [0-9.]+ MiB resident"));
    commands_of.quit();
}

TEST(Command_stats, HasALineForEachCallStack) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_EQ(commands_of.output_of("stats"), "No live blocks are known yet.\n");
    fixture.ask("leak");
    fixture.ask("leak");
    fixture.ask("hold");
    const std::string stats = commands_of.output_of("stats by bytes");
    const auto first = words_of_line(stats, "1");
    const auto second = words_of_line(stats, "2");
    EXPECT_THAT(stats,
                ContainsRegex("too early +202 B +2 +0 .* 100% +slow_leak \\(expiring.c:[0-9]+\\)"));
    EXPECT_THAT(
        stats,
        ContainsRegex("too early +202 B +1 +0 .* 100% +held_too_long \\(expiring.c:[0-9]+\\)"));
    EXPECT_LT(stats.find("slow_leak"), stats.find("held_too_long")); // more blocks
    for (const char* order : {"blocks", "rate", "age"}) {
        EXPECT_THAT(commands_of.output_of(fmt::format("stats by {}", order)),
                    HasSubstr("slow_leak"))
            << order;
    }
    EXPECT_THAT(commands_of.output_of("stats 1 by blocks"),
                ::testing::AllOf(HasSubstr("slow_leak"), Not(HasSubstr("held_too_long")),
                                 HasSubstr("1 of 2 call stacks\n")));
    EXPECT_THAT(commands_of.error_of("stats by"), HasSubstr("the order is missing; usage: stats "));
    EXPECT_THAT(commands_of.error_of("stats by colour"),
                HasSubstr("'colour' is none of bytes, blocks, rate, age, function, line, module"));
    EXPECT_THAT(commands_of.error_of("stats 0"), HasSubstr("'0' is not the number of call stacks"));
    EXPECT_THAT(commands_of.error_of("stats -1"), HasSubstr("'-1' is not"));
    EXPECT_THAT(commands_of.error_of("stats by age 3"), HasSubstr("'3' is too much"));
    fixture.ask("hold");
    const std::string costliest = commands_of.output_of("stats"); // 404 bytes beside 202
    EXPECT_LT(costliest.find("held_too_long"), costliest.find("slow_leak"));
    fixture.ask("release");
    EXPECT_THAT(commands_of.output_of("stats"), Not(HasSubstr("held_too_long")));
    commands_of.quit();
}

TEST(Command_stats, PutsCallStacksTogether) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    fixture.ask("leak");
    fixture.ask("hold");
    const std::string modules = commands_of.output_of("stats by module");
    EXPECT_THAT(modules, HasSubstr("STACKS"));
    EXPECT_THAT(modules, ContainsRegex(" 2  too early +404 B +3 +0 +100% +expiring  "));
    EXPECT_THAT(commands_of.output_of("stats by function"),
                ContainsRegex(" 1  too early +202 B +2 +0 +100% +slow_leak  "));
    const std::string lines = commands_of.output_of("stats 1 by line by blocks");
    EXPECT_THAT(lines,
                ContainsRegex(" 1  too early +202 B +2 .* slow_leak \\(expiring.c:[0-9]+\\)"));
    EXPECT_THAT(lines, HasSubstr("1 of 2 groups\n"));
    commands_of.quit();
}

TEST(Command_dump, ShowsTheWholeAccount) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.error_of("dump"), HasSubstr("no live blocks are known yet"));
    fixture.ask("leak");
    fixture.ask("leak");
    fixture.ask("hold");
    fixture.ask("release");
    fixture.ask("hold");
    const std::string all = commands_of.output_of("dump all");
    EXPECT_THAT(all, HasSubstr("    live          2 blocks, 202 B\n"
                               "    expired       0 blocks, 0 B\n"
                               "    allocated     2 blocks, 202 B\n"
                               "    freed         0 blocks, 0 B\n"));
    EXPECT_THAT(all, HasSubstr("    live          1 block, 202 B\n"
                               "    expired       0 blocks, 0 B\n"
                               "    allocated     2 blocks, 404 B\n"
                               "    freed         1 block, 202 B\n"));
    EXPECT_THAT(all, ContainsRegex("  expiring  slow_leak\\(\\)\\+"));
    const std::string one = commands_of.output_of("dump 1");
    EXPECT_THAT(one, StartsWith("CallStack[1]: "));
    const std::string both = commands_of.output_of("dump 2 1");
    EXPECT_THAT(both, StartsWith("CallStack[2]: "));
    EXPECT_THAT(both, HasSubstr("\nCallStack[1]: "));
    EXPECT_THAT(commands_of.output_of("dump"), StartsWith("CallStack["));
    EXPECT_EQ(commands_of.error_of("dump 1 99"),
              "memleax: error: there is no call stack 99; try 'stats'");
    EXPECT_THAT(commands_of.error_of("dump x"), HasSubstr("'x' is not the id"));
    commands_of.quit();
}

TEST(Command_blocks, ListsTheOldest) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    for (int i = 0; i < 3; ++i) {
        fixture.ask("leak");
    }
    commands_of.run("stats");
    const std::string blocks = commands_of.output_of("blocks 1");
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), '\n'), 4) << blocks; // with its heading
    EXPECT_THAT(blocks,
                ContainsRegex(fmt::format("0x[0-9a-f]{{16}} +101 .* +{}\n", fixture.pid())));
    const std::string oldest = commands_of.output_of("blocks 1 1");
    EXPECT_THAT(oldest, HasSubstr("1 of 3 blocks\n"));
    EXPECT_EQ(oldest.substr(oldest.find("0x"), 18), blocks.substr(blocks.find("0x"), 18));
    EXPECT_THAT(commands_of.error_of("blocks"),
                HasSubstr("the id is missing; usage: blocks ID [N]"));
    EXPECT_THAT(commands_of.error_of("blocks 99"), HasSubstr("there is no call stack 99"));
    EXPECT_THAT(commands_of.error_of("blocks 1 none"),
                HasSubstr("'none' is not the number of blocks"));
    EXPECT_THAT(commands_of.error_of("blocks 99999999999999999999"), HasSubstr("is not the id"));
    commands_of.quit();
}

TEST(Command_show, KnowsTheBlockOfAnAddress) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    commands_of.run("stats");
    const std::string blocks = commands_of.output_of("blocks 1");
    const std::uint64_t address =
        std::stoull(blocks.substr(blocks.find("0x") + 2, 16), nullptr, 16);
    EXPECT_THAT(
        commands_of.output_of(fmt::format("show 0x{:x}", address)),
        ::testing::AllOf(
            StartsWith(
                fmt::format("0x{0:x} is 0 bytes into a block of 101 bytes at 0x{0:x}, ", address)),
            HasSubstr(fmt::format("allocated by thread {} at CallStack[1]:\n", fixture.pid())),
            HasSubstr("  expiring  slow_leak()+"),
            HasSubstr(fmt::format("    0x{:016x}  00 00 ", address))));
    EXPECT_THAT(commands_of.output_of(fmt::format("show {:X}", address + 100)),
                HasSubstr(" is 100 bytes into a block of 101 bytes "));
    for (const std::uint64_t outside : {address + 101, address - 1}) {
        EXPECT_THAT(commands_of.output_of(fmt::format("show {:x}", outside)),
                    HasSubstr(" is in no live block that we know."));
    }
    EXPECT_THAT(commands_of.error_of("show"),
                HasSubstr("the address is missing; usage: show ADDRESS"));
    EXPECT_THAT(commands_of.error_of("show me"), HasSubstr("'me' is not an address (hexadecimal"));
    EXPECT_THAT(commands_of.error_of("show 12345678123456789"), HasSubstr("is not an address"));
    EXPECT_THAT(commands_of.error_of("show 0x"), HasSubstr("'0x' is not an address"));
    commands_of.quit();
}

TEST(Command_errors, AreListedWithTheirStacks) {
    Fixture fixture("memory_errors", {"array_by_delete"});
    Commands commands_of(fixture.pid(), {"-q", "--check"});
    EXPECT_THAT(commands_of.output_of("errors"), HasSubstr("No memory errors so far."));
    fixture.go();
    fixture.go();
    const std::string line = commands_of.output_of("errors");
    EXPECT_THAT(line, StartsWith("Error[1]: the block of 100 bytes at 0x"));
    EXPECT_THAT(line, HasSubstr(", is ended by operator delete, 2 times\n"));
    for (const char* command : {"errors 1", "errors all"}) {
        const std::string all = commands_of.output_of(command);
        EXPECT_THAT(all, HasSubstr("deleting_object"));
        EXPECT_THAT(all, HasSubstr("making_array"));
    }
    EXPECT_THAT(commands_of.error_of("errors 2"), HasSubstr("there is no error 2; there is 1"));
    commands_of.quit();
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_events, ListsTheLastCalls) {
    Fixture fixture("mapped", {"stacks"});
    Commands commands_of(fixture.pid(), {"--track", "mmap"});
    EXPECT_EQ(commands_of.output_of("events"), "Nothing has been mapped or unmapped yet.\n");
    fixture.go();
    const std::string events = commands_of.output_of("events");
    EXPECT_THAT(events, ContainsRegex(fmt::format(
                            "thread {}: mmap maps 0x[0-9a-f]+-0x[0-9a-f]+, [0-9]+ bytes "
                            "\\(thread-stack\\)\n.*  mmap",
                            fixture.pid())));
    EXPECT_LE(commands_of.output_of("events 1").size(), events.size());
    EXPECT_THAT(commands_of.error_of("events 0"), HasSubstr("'0' is not the number of events"));
    EXPECT_THAT(commands_of.error_of("events live 1"), HasSubstr("'1' is too much"));
    EXPECT_EQ(commands_of.output_of("events live"), "");
    EXPECT_EQ(commands_of.output_of("events off"), "");
    commands_of.quit();
}

TEST(Command_events, NeedsMappedMemory) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.error_of("events"), HasSubstr("mapped memory is not followed"));
    commands_of.quit();
}

TEST(Command_expire, SetsTheAge) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid(), {"-e", "1000"});
    EXPECT_EQ(commands_of.output_of("expire"), "Blocks expire at an age of 1000 s.\n");
    fixture.ask("leak");
    EXPECT_THAT(commands_of.error_of("expire 0"), HasSubstr("'0' is not a time above 0"));
    EXPECT_THAT(commands_of.error_of("expire soon"), HasSubstr("'soon' is not a time above 0"));
    EXPECT_THAT(commands_of.error_of("expire 1 2"), HasSubstr("'2' is too much"));
    commands_of.memleax().process().send("expire 0.01");
    // The one that was there already: by its new age.
    std::string line;
    do {
        line = commands_of.memleax().process().read_line().value_or("(end)");
    } while (line.starts_with("Blocks expire"));
    EXPECT_EQ(line, "CallStack[1]: memory expires with 101 bytes, backtrace:");
    commands_of.quit();
}

TEST(Command_mark, IsWhatSinceComparesWith) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.output_of("mark"), HasSubstr("Mark 1."));
    EXPECT_THAT(commands_of.output_of("mark before"), HasSubstr("Mark before."));
    fixture.ask("leak");
    EXPECT_THAT(commands_of.output_of("mark before"), HasSubstr("'since before'")); // anew
    EXPECT_THAT(commands_of.output_of("since before"), HasSubstr(" +0 B in +0 blocks\n"));
    EXPECT_THAT(commands_of.output_of("since 1"), HasSubstr(" +101 B in +1 blocks\n"));
    commands_of.quit();
}

TEST(Command_since, TellsWhatHasGrown) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    fixture.ask("hold");
    EXPECT_THAT(
        commands_of.output_of("since"),
        ::testing::AllOf(StartsWith("Since the begin, "), HasSubstr(" +303 B in +2 blocks\n")));
    commands_of.run("mark quiet");
    fixture.ask("leak");
    fixture.ask("leak");
    fixture.ask("release");
    const std::string since = commands_of.output_of("since");
    EXPECT_THAT(since, HasSubstr("Since quiet, "));
    EXPECT_THAT(since, HasSubstr(": +0 B in +1 blocks\n")); // 2 * 101 - 202
    EXPECT_THAT(since, ContainsRegex("\\+202 B +\\+2 .* slow_leak \\(expiring.c:"));
    EXPECT_THAT(since, Not(HasSubstr("held_too_long")));
    EXPECT_EQ(commands_of.error_of("since then"),
              "memleax: error: there is no mark 'then'; there are: quiet");
    EXPECT_THAT(commands_of.error_of("since quiet now"), HasSubstr("'now' is too much"));
    commands_of.quit();
}

/// Of "N intervals, from ..."; 0 if there are none.
int intervals(const std::string& text) {
    return std::atoi(text.c_str());
}

TEST(Command_intervals, ClearBeginsTheFirst) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_GE(intervals(commands_of.output_of("intervals new")), 1);
    EXPECT_EQ(intervals(commands_of.output_of("intervals clear")), 1);
    EXPECT_THAT(commands_of.output_of("intervals clear"),
                ContainsRegex("^1 interval, from .* ago to now.\n$"));
    EXPECT_THAT(commands_of.error_of("intervals begin"),
                HasSubstr("'begin' is none of new, stop, drop, clear; usage: intervals "));
    commands_of.quit();
}

TEST(Command_intervals, StopBeginsNoMore) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    commands_of.run("intervals clear");
    EXPECT_THAT(commands_of.output_of("intervals stop"),
                ContainsRegex("^[0-9]+ interval.* ago to .* ago.\n$"));
    fixture.ask("leak"); // no evidence, but known
    EXPECT_THAT(
        commands_of.output_of("dump all"),
        ::testing::AllOf(HasSubstr("live          1 block, 101 B"), Not(HasSubstr("intervals "))));
    EXPECT_THAT(commands_of.output_of("intervals new"), HasSubstr(" ago to now.\n"));
    commands_of.quit();
}

TEST(Command_intervals, NewMakesABoundary) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    commands_of.run("intervals clear");
    fixture.ask("leak");
    EXPECT_GE(intervals(commands_of.output_of("intervals new")), 2);
    fixture.ask("leak");
    fixture.ask("leak");
    const std::string dump = commands_of.output_of("dump 1");
    EXPECT_THAT(dump, HasSubstr(": 1 of 1 blocks still live\n"));
    EXPECT_THAT(dump, HasSubstr(": 2 of 2 blocks still live\n"));
    commands_of.quit();
}

TEST(Command_intervals, DropForgetsTheOldest) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    commands_of.run("intervals clear");
    fixture.ask("leak");
    commands_of.run("intervals new");
    const std::string dump = commands_of.output_of("dump all");
    EXPECT_THAT(dump, HasSubstr(": 1 of 1 blocks still live\n"));
    EXPECT_GE(intervals(commands_of.output_of("intervals drop")), 1);
    EXPECT_THAT(
        commands_of.output_of("dump all"),
        ::testing::AllOf(HasSubstr("live          1 block, 101 B"), Not(HasSubstr("still live"))));
    // The one that is being recorded stays.
    commands_of.run("intervals clear");
    EXPECT_THAT(commands_of.error_of("intervals drop"),
                HasSubstr("there is only the interval that is being"));
    commands_of.quit();
}

// libmemleak's names mean something else to most people.
TEST(Command_intervals, IsWhatFormerNamesLeadTo) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    for (const char* former : {"start", "stop", "restart", "delete"}) {
        EXPECT_THAT(commands_of.error_of(former),
                    ::testing::AllOf(HasSubstr(fmt::format("there is no command '{}'; ", former)),
                                     HasSubstr("'intervals ")));
    }
    EXPECT_THAT(commands_of.error_of("stop"), HasSubstr("'pause' takes all breakpoints out"));
    commands_of.quit();
}

TEST(Command_wait, LetsTimePass) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(commands_of.output_of("wait 300ms"), "");
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(300));
    EXPECT_THAT(commands_of.error_of("wait"), HasSubstr("the time is missing; usage: wait TIME"));
    EXPECT_THAT(commands_of.error_of("wait soon"), HasSubstr("'soon' is not a time above 0"));
    // Not beyond the target's end.
    commands_of.memleax().process().send("wait 2h");
    EXPECT_EQ(fixture.quit(), 0);
    EXPECT_EQ(commands_of.quit().status, 0);
}

TEST(Command_wait, GoesBeforeTheTargetIsLeft) {
    Fixture fixture("expiring");
    Memleax memleax({"-q", "-t", "0.01", "-x", "wait 2h", "-x", "stats", "-x", "shell echo over",
                     std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.ask("leak");
    EXPECT_EQ(fixture.quit(), 0); // ends the waiting
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("slow_leak"));
    EXPECT_THAT(result.output, HasSubstr("over\n"));
}

/// Of what keeps blocks; --leak-check knows no heap of other CPUs yet.
class HeldBlocks : public ::testing::Test {
  protected:
    void SetUp() override {
#ifndef __x86_64__
        GTEST_SKIP() << "on x86_64 only";
#endif
        fixture_.emplace("held_blocks");
        commands_.emplace(fixture_->pid());
        for (const std::string& line : fixture_->go().other) {
            if (line.starts_with("newest ")) {
                newest_ = line.substr(line.find(' ') + 1);
            }
        }
        ASSERT_THAT(newest_, StartsWith("0x"));
    }
    std::string output_of(const std::string& command) {
        return commands_->output_of(command);
    }

    std::optional<Fixture> fixture_;
    std::optional<Commands> commands_;
    std::string newest_;
};

using Command_heap = HeldBlocks;
TEST_F(Command_heap, CountsByType) {
    EXPECT_THAT(output_of("heap by type"), HasSubstr("3  shop::Session"));
    EXPECT_THAT(output_of("heap by holder"), HasSubstr("shop::g_sessions"));
}

using Command_leaks = HeldBlocks;
TEST_F(Command_leaks, HasTheCallStack) {
    EXPECT_THAT(output_of("leaks"), HasSubstr("shop::lose_block"));
    EXPECT_THAT(output_of("stats"), HasSubstr("lost"));
}

using Command_refs = HeldBlocks;
TEST_F(Command_refs, SaysWhoPointsToIt) {
    EXPECT_THAT(output_of("refs " + newest_), HasSubstr("shop::g_sessions"));
}

using Command_why = HeldBlocks;
TEST_F(Command_why, SaysWhatKeepsIt) {
    EXPECT_THAT(output_of("why " + newest_), HasSubstr("shop::g_sessions"));
}

TEST(Command_watch, NeedsATerminal) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_THAT(commands_of.error_of("watch stats"), HasSubstr("watch needs a terminal; a script"));
    EXPECT_THAT(commands_of.error_of("watch"), HasSubstr("the command is missing; usage: watch "));
    EXPECT_THAT(commands_of.error_of("watch 1s"), HasSubstr("the command is missing; usage: "));
    EXPECT_THAT(commands_of.error_of("watch 1s nonsense"), HasSubstr("no command 'nonsense'"));
    EXPECT_THAT(commands_of.error_of("watch pause"),
                HasSubstr("'pause' does more than to show something; usage: watch "));
    commands_of.quit();
}

TEST(Command_exit, IsQuit) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    commands_of.memleax().process().send("exit");
    const auto result = commands_of.memleax().finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("ended by the user"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Pipe, GoesThroughAShellCommand) {
    Fixture fixture("expiring");
    fixture.ask("leak");
    Commands commands_of(fixture.pid());
    const std::string help = commands_of.output_of("help");
    EXPECT_EQ(commands_of.output_of("help | head -n 1"), help.substr(0, help.find('\n') + 1));
    EXPECT_EQ(commands_of.output_of("help | wc -c"), fmt::format("{}\n", help.size()));
    EXPECT_EQ(commands_of.output_of("help | grep -c '^pause \\|^resume '"), "2\n");
    // What ends early, finds nothing or reads nothing is no news.
    for (const char* filter : {"true", "false", "grep nonsense", "head -c 1 > /dev/null"}) {
        const auto answer = commands_of.run(fmt::format("help | {}", filter));
        EXPECT_EQ(answer.output, "");
        EXPECT_EQ(answer.error, "");
    }
    EXPECT_THAT(commands_of.error_of("nonsense | cat"), HasSubstr("no command 'nonsense'"));
    EXPECT_THAT(commands_of.error_of("dump 77 | cat"), HasSubstr("there is no call stack 77"));
    // A pattern is no pipe.
    EXPECT_THAT(commands_of.output_of("ignore 'a|b'"), HasSubstr("    a|b\n"));
    commands_of.quit();
}

TEST(Command_list, SetsTheRowsOfStats) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_EQ(commands_of.output_of("list"), "stats prints 20 call stacks.\n");
    fixture.ask("leak");
    fixture.ask("hold");
    EXPECT_EQ(commands_of.output_of("list 1"), "stats prints 1 call stack.\n");
    EXPECT_THAT(commands_of.output_of("stats"), HasSubstr("1 of 2 call stacks\n"));
    EXPECT_THAT(commands_of.error_of("list 0"), HasSubstr("'0' is not the number of call stacks"));
    EXPECT_THAT(commands_of.error_of("list all"), HasSubstr("'all' is not"));
    commands_of.quit();
}

TEST(Command_ignore, HidesCallStacks) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    fixture.ask("hold");
    EXPECT_EQ(commands_of.output_of("ignore"), "No call stacks are hidden.\n");
    EXPECT_EQ(commands_of.output_of("ignore slow_*"),
              "Call stacks are hidden through:\n    slow_*\n");
    const std::string stats = commands_of.output_of("stats");
    EXPECT_THAT(stats, Not(HasSubstr("slow_leak")));
    EXPECT_THAT(stats, HasSubstr("held_too_long"));
    EXPECT_THAT(stats, HasSubstr("1 hidden by ignore or only\n"));
    EXPECT_THAT(commands_of.output_of("since"), HasSubstr("+202 B in +1 blocks"));
    EXPECT_EQ(commands_of.output_of("ignore clear"), "No call stacks are hidden.\n");
    EXPECT_THAT(commands_of.output_of("stats"), HasSubstr("slow_leak"));
    commands_of.run("ignore libc.so*"); // a module that all go through
    EXPECT_THAT(commands_of.output_of("stats"), HasSubstr("2 hidden by ignore or only\n"));
    EXPECT_THAT(commands_of.error_of("ignore a b"), HasSubstr("'b' is too much"));
    commands_of.quit();
}

TEST(Command_only, SinglesOutCallStacks) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    fixture.ask("hold");
    EXPECT_EQ(commands_of.output_of("only"), "No call stacks are singled out.\n");
    EXPECT_EQ(commands_of.output_of("only held_too_long"),
              "Call stacks are shown only through:\n    held_too_long\n");
    const std::string stats = commands_of.output_of("stats");
    EXPECT_THAT(stats, Not(HasSubstr("slow_leak")));
    EXPECT_THAT(stats, HasSubstr("1 hidden by ignore or only\n"));
    EXPECT_EQ(commands_of.output_of("only clear"), "No call stacks are singled out.\n");
    EXPECT_THAT(commands_of.output_of("stats"), HasSubstr("slow_leak"));
    commands_of.quit();
}

// A run of pause and resume around frees and allocations that nobody sees.
TEST(Command_pause, LeavesTheTargetAsItWas) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Commands commands_of(fixture.pid());
    fixture.ask("hold");
    EXPECT_THAT(commands_of.output_of("pause"), HasSubstr("All breakpoints are out."));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(commands_of.output_of("status"), HasSubstr("not watched for now (paused)"));
    EXPECT_THAT(commands_of.error_of("pause"), HasSubstr("watching is paused; try 'resume'"));
    EXPECT_THAT(commands_of.output_of("dump all"), HasSubstr("live          1 block, 202 B"));
    EXPECT_EQ(WEXITSTATUS(commands_of.quit().status), 0); // from within the pause
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_resume, MakesNoFalseLeaks) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid(), {"-e", "1000", "-q", "-F", "json"});
    const auto say = [&](const std::string& line) { // with json, commands talk on stderr
        commands_of.memleax().process().send(line);
    };
    fixture.ask("hold");
    fixture.ask("leak");
    say("pause");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("All breakpoints are out."));
    fixture.ask("release"); // nobody sees that,
    fixture.ask("hold");    // nor this
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("is being watched again"));
    fixture.ask("release"); // of an unknown block
    fixture.ask("leak");
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("the target is being watched"));
    const auto json = commands_of.quit().json();
    EXPECT_EQ(live_leaks(json), (Leaks{{"slow_leak", {1, 101}}}));
    EXPECT_EQ(json.at("session").at("events").at("unknown_free"), 1);
    EXPECT_EQ(json.at("session").at("events").at("double_free"), 0);
    for (const auto& stack : json.at("callstacks")) { // neither leaked nor freed
        EXPECT_EQ(stack.at("free_blocks"), 0) << stack;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_resume, BeginsAnewWithMappedMemory) {
    Fixture fixture("mapped");
    Commands commands_of(fixture.pid(),
                         {"-e", "1000", "-q", "-F", "json", "--track", "heap,mmap,brk,shm"});
    const auto say = [&](const std::string& line) { commands_of.memleax().process().send(line); };
    fixture.go();
    say("pause");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("All breakpoints are out."));
    const FixtureAnswer unseen = fixture.go();
    say("resume");
    ASSERT_TRUE(commands_of.memleax().process().find_error_line("is being watched again"));
    FixtureAnswer answer = fixture.go();
    for (auto& [function, leak] : answer.truth) { // the last round's
        leak.blocks -= unseen.truth.at(function).blocks;
        leak.bytes -= unseen.truth.at(function).bytes;
    }
    const auto json = commands_of.quit().json();
    EXPECT_EQ(live_leaks(json), answer.truth);
    EXPECT_EQ(json.at("mapped").at("unexplained_bytes"), 0) << json.at("mapped");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_threads, SaysWhatEachHasAllocated) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    EXPECT_THAT(
        commands_of.output_of("threads"),
        ContainsRegex(fmt::format("\n +{}  [SR] +expiring +1 block, 101 B\n$", fixture.pid())));
    commands_of.quit();
    Fixture many("threads16");
    Commands commands_of_many(many.pid());
    const std::string threads = commands_of_many.output_of("threads");
    EXPECT_EQ(std::count(threads.begin(), threads.end(), '\n'), 1 + 1 + 16) << threads;
    commands_of_many.quit();
}

TEST(Command_modules, SaysWhereSymbolsComeFrom) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    const std::string modules = commands_of.output_of("modules");
    EXPECT_THAT(modules, ContainsRegex("0x[0-9a-f]{16}-0x[0-9a-f]{16}  expiring  +[^ \n]"));
    EXPECT_THAT(modules, ContainsRegex("  libc.so.6  +[^ \n]"));
    commands_of.quit();
}

/// What `modules` says of a process's languages; it goes on until its input ends.
std::string modules_of(const std::vector<std::string>& command, int end_status) {
    ChildProcess process(command);
    EXPECT_EQ(process.read_line(), "ready");
    Commands commands_of(process.pid());
    const std::string modules = commands_of.output_of("modules");
    commands_of.quit();
    process.close_input();
    EXPECT_EQ(process.wait_for_end(), end_status);
    return modules;
}

TEST(Command_modules, SaysNothingOfOtherHeapsWhereThereAreNone) {
    EXPECT_THAT(modules_of({fixture_path("expiring")}, 0), Not(HasSubstr("not seen")));
}

TEST(Command_modules, SaysThatGosObjectsAreNotSeen) {
    if (!is_built("go_leaks")) {
        GTEST_SKIP() << "go_leaks could not be built here";
    }
    EXPECT_THAT(modules_of({fixture_path("go_leaks")}, 0),
                HasSubstr("\ngo_leaks: Go's own objects are in its runtime's heap, and not seen; "
                          "what C code allocates is\n"));
}

TEST(Command_modules, SaysThatPythonsObjectsAreNotSeen) {
    if (access("/usr/bin/python3", X_OK) != 0) {
        GTEST_SKIP() << "there is no /usr/bin/python3";
    }
    const std::string script = "import sys; print('ready', flush=True); sys.stdin.read()";
    EXPECT_THAT(modules_of({"/usr/bin/python3", "-c", script}, 0),
                ContainsRegex("\npython3[^\n]*: Python's objects of up to 512 bytes are in "
                              "its own arenas, and not seen, unless PYTHONMALLOC=malloc"));
}

TEST(Command_modules, SaysThatNodesObjectsAreNotSeen) {
    if (std::system("command -v node >/dev/null") != 0) {
        GTEST_SKIP() << "there is no node";
    }
    const std::string script =
        "process.stdin.on('end', () => process.exit(0)); process.stdin.resume();"
        "console.log('ready')";
    EXPECT_THAT(modules_of({"node", "-e", script}, 0),
                ContainsRegex("\n[^\n]*node[^\n]*: JavaScript's objects are in V8's own heap, "
                              "and not seen"));
}

TEST(Command_save, WritesEachFormat) {
    Fixture fixture("expiring");
    test::TemporaryFolder folder;
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    for (const char* format : {"text", "json", "folded", "pprof", "callgrind", "html"}) {
        const std::string file = folder.file(std::string("my report.") + format);
        const auto answer = commands_of.run(fmt::format("save {} '{}'", format, file));
        if (answer.error.find("is none of") != std::string::npos) {
            EXPECT_STREQ(format, "html"); // a build without its library
            continue;
        }
        EXPECT_EQ(answer.output, fmt::format("1 call stacks written to {}.\n", file))
            << answer.error;
        EXPECT_FALSE(contents(file).empty());
    }
    EXPECT_EQ(live_leaks(nlohmann::json::parse(contents(folder.file("my report.json")))),
              (Leaks{{"slow_leak", {1, 101}}}));
    EXPECT_THAT(contents(folder.file("my report.text")), HasSubstr("the watching goes on"));
    EXPECT_THAT(contents(folder.file("my report.folded")), HasSubstr("slow_leak"));
    EXPECT_THAT(contents(folder.file("my report.pprof")), StartsWith("\x1f\x8b"));
    EXPECT_THAT(contents(folder.file("my report.callgrind")), HasSubstr("fn="));
    EXPECT_THAT(commands_of.error_of("save"),
                HasSubstr("the format is missing; usage: save FORMAT FILE"));
    EXPECT_THAT(commands_of.error_of("save json"), HasSubstr("the file is missing"));
    EXPECT_THAT(commands_of.error_of("save json ''"), HasSubstr("the file's name is empty"));
    EXPECT_THAT(commands_of.error_of("save docx x"), HasSubstr("'docx' is none of "));
    EXPECT_THAT(commands_of.error_of("save json /nowhere/x"),
                HasSubstr("cannot write /nowhere/x: No such file or directory"));
    EXPECT_THAT(commands_of.error_of("save json /dev/full"),
                HasSubstr("cannot write /dev/full: No space left on device"));
    commands_of.quit();
}

TEST(Command_source, RunsAFile) {
    Fixture fixture("expiring");
    test::TemporaryFolder folder;
    Commands commands_of(fixture.pid());
    const std::string inner = folder.file("inner");
    const std::string outer = folder.file("outer");
    test::write_file(inner, "list 5\n# a comment\n\nlist");
    test::write_file(outer, "list 3\nsource " + inner + "\nlist 4\n");
    EXPECT_EQ(commands_of.output_of("source " + outer),
              "stats prints 3 call stacks.\nstats prints 5 call stacks.\n"
              "stats prints 5 call stacks.\nstats prints 4 call stacks.\n");
    EXPECT_THAT(commands_of.error_of("source"),
                HasSubstr("the file is missing; usage: source FILE"));
    EXPECT_THAT(commands_of.error_of("source /nowhere"),
                HasSubstr("cannot read /nowhere: No such file or directory"));
    EXPECT_THAT(commands_of.error_of("source " + folder.file("")), HasSubstr("Is a directory"));
    const std::string itself = folder.file("itself");
    for (const int times : {1, 2}) {
        std::string text;
        for (int i = 0; i < times; ++i) {
            text += "source " + itself + "\n";
        }
        test::write_file(itself, text);
        EXPECT_THAT(commands_of.error_of("source " + itself), HasSubstr("does it source itself?"));
    }
    EXPECT_THAT(commands_of.output_of("list"), HasSubstr("4 call stacks")); // it goes on
    commands_of.quit();
}

TEST(Command_shell, RunsAProgram) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    EXPECT_EQ(commands_of.output_of("shell echo \"it's\" 'a  b' | tr a-z A-Z"), "IT'S A  B\n");
    EXPECT_THAT(commands_of.run("shell exit 7").error,
                HasSubstr("the program ended with status 7"));
    EXPECT_THAT(commands_of.run("shell /nowhere/program").error, HasSubstr("status 127"));
    // SIGPIPE is ignored by memleax only. (glibc's posix_spawn ignores its own two signals.)
    const auto ignored =
        words_of_line(commands_of.output_of("shell grep SigIgn /proc/self/status"), "SigIgn:");
    ASSERT_EQ(ignored.size(), 2U);
    EXPECT_EQ(std::stoull(ignored[1], nullptr, 16) & 0x7fffffffU, 0U) << ignored[1];
    commands_of.quit();
}

TEST(Command_detach, LeavesTheDataForReading) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Commands commands_of(fixture.pid());
    fixture.ask("leak");
    EXPECT_THAT(commands_of.output_of("detach"), HasSubstr("The target has been let go of."));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    fixture.ask("leak"); // is not seen
    EXPECT_THAT(commands_of.output_of("dump all"), HasSubstr("live          1 block, 101 B"));
    EXPECT_THAT(commands_of.output_of("status"), HasSubstr("not watched any more"));
    for (const char* command : {"detach", "pause", "resume"}) {
        EXPECT_THAT(commands_of.error_of(command), HasSubstr("the target is not watched any more"))
            << command;
    }
    const auto result = commands_of.quit();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, HasSubstr("ended by the user"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Command_quit, PrintsTheReport) {
    Fixture fixture("expiring");
    Commands commands_of(fixture.pid());
    const auto result = commands_of.quit();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, HasSubstr("ended by the user"));
    EXPECT_THAT(result.output, HasSubstr("== No expired memory blocks."));
    EXPECT_EQ(fixture.quit(), 0);
}

// The end of the commands is the end of the session, for a pipe and for a file; a last line without
// its end is one.
TEST(Input, EndsTheSession) {
    Fixture fixture("expiring");
    test::TemporaryFolder folder;
    test::write_file(folder.file("commands"), "list 3\nnonsense\nlist 4");
    const std::string memleax = fmt::format("{} -i {}", MEMLEAX_PROGRAM, fixture.pid());
    for (const std::string& line : {memleax + " < " + folder.file("commands"),
                                    "cat " + folder.file("commands") + " | " + memleax}) {
        ChildProcess shell({"/bin/sh", "-c", line});
        EXPECT_EQ(shell.wait_for_end(), 0) << shell.errors();
        EXPECT_THAT(shell.output(),
                    StartsWith("stats prints 3 call stacks.\n"
                               "stats prints 4 call stacks.\n\nNothing to judge: "));
        EXPECT_THAT(shell.errors(), HasSubstr("memleax: error: there is no command 'nonsense'"));
    }
    ChildProcess nothing({"/bin/sh", "-c", memleax + " < /dev/null"});
    EXPECT_EQ(nothing.wait_for_end(), 0) << nothing.errors();
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
