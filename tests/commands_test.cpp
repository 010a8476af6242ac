// SPDX-License-Identifier: GPL-3.0-or-later
// Every command, through `memleax -i PID < pipe`, rightly and wrongly used, against fixtures that
// know the truth. account_commands_test has those that show the account, target_commands_test those
// about the processes.
#include <algorithm>
#include <chrono>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../src/cli/command.hpp"
#include "build_paths.hpp"
#include "commands_support.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A command's tests are the suite "Command_NAME", in one of these programs.
TEST(CommandTable, HasATestForEachCommand) {
    std::string sources;
    for (const char* program :
         {"commands", "account_commands", "target_commands", "second_unwinder"}) {
        sources +=
            test::read_file(fmt::format("{}/tests/{}_test.cpp", MEMLEAX_SOURCE_DIR, program));
    }
    for (const Command& command : commands()) {
        const std::regex test(fmt::format("\\nTEST(_F)?\\(Command_{},", command.name));
        EXPECT_TRUE(std::regex_search(sources, test)) << command.name;
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
        EXPECT_FALSE(test::read_file(file).empty());
    }
    EXPECT_EQ(live_leaks(nlohmann::json::parse(test::read_file(folder.file("my report.json")))),
              (Leaks{{"slow_leak", {1, 101}}}));
    EXPECT_THAT(test::read_file(folder.file("my report.text")), HasSubstr("the watching goes on"));
    if (const auto html = test::read_file(folder.file("my report.html")); !html.empty()) {
        EXPECT_THAT(html, HasSubstr("while the watching goes on"));
    }
    EXPECT_THAT(test::read_file(folder.file("my report.folded")), HasSubstr("slow_leak"));
    EXPECT_THAT(test::read_file(folder.file("my report.pprof")), StartsWith("\x1f\x8b"));
    EXPECT_THAT(test::read_file(folder.file("my report.callgrind")), HasSubstr("fn="));
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
