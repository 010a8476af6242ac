// SPDX-License-Identifier: GPL-3.0-or-later
// The commands that show the account, or what of it is shown.
#include <algorithm>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
    EXPECT_THAT(status, ContainsRegex("pressure    [a-z].* memory"));
    EXPECT_THAT(status,
                ContainsRegex("resident    [0-9.]+ [KM]iB anonymous \\([+-].*\\), .* 1 threads"));
    EXPECT_THAT(status, ContainsRegex("machine     [0-9.]+ [MGT]iB of [0-9.]+ [MGT]iB available"));
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

} // namespace
} // namespace memleax::testing
