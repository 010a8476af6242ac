// SPDX-License-Identifier: GPL-3.0-or-later
// The prompt on a terminal: typing, Tab, history, lines that come meanwhile, Ctrl-C and Ctrl-D.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "build_paths.hpp"
#include "prompt_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// Up arrow, and so on.
const std::string kUp = "\x1b[A";
const std::string kCtrlA = "\x01";
const std::string kCtrlC = "\x03";
const std::string kCtrlD = "\x04";
const std::string kCtrlR = "\x12";
const std::string kCtrlZ = "\x1a";

std::string contents(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(Prompt, RunsWhatIsTyped) {
    PromptOnTerminal prompt("expiring");
    EXPECT_THAT(prompt.run("status"), HasSubstr("watched     for "));
    EXPECT_THAT(prompt.run("  list   7 "), HasSubstr("stats prints 7 call stacks.\n"));
    EXPECT_EQ(prompt.run("# nothing"), "");
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST(Prompt, TakesBeginningsOfNames) {
    PromptOnTerminal prompt("expiring");
    EXPECT_THAT(prompt.run("statu"), StartsWith("target  "));
    EXPECT_THAT(prompt.run("li 3"), HasSubstr("stats prints 3 call stacks."));
    EXPECT_THAT(prompt.run("st"), HasSubstr("'st' is ambiguous: stats, status"));
    EXPECT_THAT(prompt.run("frobnicate"),
                HasSubstr("there is no command 'frobnicate'; try 'help'"));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, AnEmptyLineRunsTheLastCommandAgain) {
    PromptOnTerminal prompt("expiring");
    EXPECT_EQ(prompt.run(""), ""); // there is none yet
    prompt.run(" list 5");
    EXPECT_THAT(prompt.run(""), HasSubstr("stats prints 5 call stacks."));
    EXPECT_THAT(prompt.run("  "), HasSubstr("stats prints 5 call stacks."));
    // Not one that would do it twice.
    EXPECT_THAT(prompt.run("  mark"), HasSubstr("Mark 1."));
    EXPECT_EQ(prompt.run(""), "");
    EXPECT_THAT(prompt.run("mark"), HasSubstr("Mark 2."));
    EXPECT_EQ(prompt.quit(), 0);
}

/// What Tab makes of a line.
void expect_completion(PromptOnTerminal& prompt, const std::string& typed,
                       const std::string& completed) {
    prompt.terminal.type(typed + "\t");
    prompt.terminal.expect_cursor_after(kPrompt + completed);
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect_cursor_after(kPrompt);
}

TEST(Prompt, TabCompletes) {
    PromptOnTerminal prompt("expiring",
                            {.arguments = {"-e", "1000"}, .environment = {}, .size = {}});
    prompt.fixture->ask("leak");
    prompt.run("stats"); // gives the stack its number
    test::write_file(prompt.folder.file("commands.txt"), "status\n");
    expect_completion(prompt, "statu", "status ");
    expect_completion(prompt, "sta", "stat"); // stats, status
    prompt.run("mark before_lunch");
    prompt.run("mark after");
    expect_completion(prompt, "since b", "since before_lunch ");
    expect_completion(prompt, "ignore slow", "ignore slow_leak ");
    expect_completion(prompt, "only libc.so", "only libc.so.6 ");
    expect_completion(prompt, "only cl", "only clear ");
    expect_completion(prompt, "intervals d", "intervals drop ");
    expect_completion(prompt, "watch 5s sta", "watch 5s stat");
    expect_completion(prompt, "watch since af", "watch since after ");
    expect_completion(prompt, "watch qu", "watch qu"); // it does more than to show something
    expect_completion(prompt, "help mod", "help modules ");
    expect_completion(prompt, "stats b", "stats by ");
    expect_completion(prompt, "stats by ra", "stats by rate ");
    expect_completion(prompt, "stats by by", "stats by bytes ");
    expect_completion(prompt, "stats by mo", "stats by module ");
    expect_completion(prompt, "blocks ", "blocks 1 ");
    expect_completion(prompt, "dump a", "dump all ");
    expect_completion(prompt, "save js", "save json ");
    expect_completion(prompt, "source " + prompt.folder.file("comm"),
                      "source " + prompt.folder.file("commands.txt "));
    expect_completion(prompt, "save json " + prompt.folder.file("comm"),
                      "save json " + prompt.folder.file("commands.txt "));
    expect_completion(prompt, "quit n", "quit n"); // takes nothing, offers nothing
    expect_completion(prompt, "nonsense ", "nonsense ");
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, TabCompletesNamesThatLeadNowhere) {
    PromptOnTerminal prompt("expiring");
    const std::string link = prompt.folder.file("loop");
    std::filesystem::create_symlink(link, link);
    expect_completion(prompt, "save json " + link.substr(0, link.size() - 1),
                      "save json " + link + " ");
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, TabTwiceListsWithoutAsking) {
    PromptOnTerminal prompt(
        "expiring", {.arguments = {"-e", "1000", "-l", "256"}, .environment = {}, .size = {}});
    prompt.fixture->ask("stacks 150");
    prompt.terminal.type("blocks \t\t");
    // All of them at once: a question would keep the session from everything else.
    prompt.terminal.expect("150");
    prompt.terminal.expect_cursor_after(kPrompt + std::string("blocks "));
    EXPECT_THAT(prompt.terminal.text(), Not(HasSubstr("Display all")));
    prompt.terminal.type("1\r");
    prompt.terminal.expect("ADDRESS");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, KeepsItsHistory) {
    test::TemporaryFolder state;
    const PromptOptions options{
        .arguments = {}, .environment = {{"XDG_STATE_HOME", state.file("new/er")}}, .size = {}};
    Fixture fixture("expiring");
    {
        PromptOnTerminal prompt(fixture.pid(), options);
        prompt.run("list 11");
        prompt.run("list 22");
        prompt.run("list 22");
        EXPECT_EQ(prompt.quit(), 0);
    }
    const std::string file = state.file("new/er/memleax/history");
    EXPECT_EQ(contents(file), "list 11\nlist 22\nquit\n");
    struct stat status {};
    ASSERT_EQ(stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    PromptOnTerminal prompt(fixture.pid(), options);
    prompt.terminal.type(kUp + kUp);
    prompt.terminal.expect_cursor_after(kPrompt + std::string("list 22"));
    prompt.terminal.type(kUp + "\r");
    prompt.terminal.expect("stats prints 11 call stacks.");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, KeepsNoHistoryWithoutAHome) {
    Fixture fixture("expiring");
    PromptOnTerminal prompt(fixture.pid(),
                            {.arguments = {},
                             .environment = {{"XDG_STATE_HOME", "relative"}, {"HOME", ""}},
                             .size = {}});
    EXPECT_THAT(prompt.run("list 2"), HasSubstr("2 call stacks"));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, LiveLinesAppearAboveTheLine) {
    PromptOnTerminal prompt("expiring",
                            {.arguments = {"-e", "0.01"}, .environment = {}, .size = {}});
    prompt.terminal.type("list 1234567");
    prompt.terminal.type("\x1b[D\x1b[D\x1b[D"); // three to the left
    prompt.terminal.expect_cursor_after(kPrompt + std::string("list 1234"));
    prompt.fixture->ask("leak");
    prompt.terminal.expect("CallStack[1]: memory expires with 101 bytes, backtrace:\n");
    prompt.terminal.expect_screen("the typed line again", [](const Screen& screen) {
        return screen.cursor_line() == "(memleax) list 1234567" &&
               screen.before_cursor() == "(memleax) list 1234" &&
               screen.line(screen.lines().size() - 2).find("_start()") != std::string::npos;
    });
    for (int i = 2; i <= 10; ++i) {
        prompt.fixture->ask("leak");
    }
    prompt.terminal.expect("CallStack[1]: memory expires with 101 bytes, 10 times by now\n");
    prompt.terminal.expect_screen("the typed line again", [](const Screen& screen) {
        return screen.cursor_line() == "(memleax) list 1234567" &&
               screen.line(screen.lines().size() - 2) ==
                   "CallStack[1]: memory expires with 101 bytes, 10 times by now";
    });
    // One line that is typed is there, and no remains of it anywhere else.
    for (std::size_t row = 0; row + 1 < prompt.terminal.screen().lines().size(); ++row) {
        EXPECT_THAT(prompt.terminal.screen().line(row), Not(HasSubstr("list")));
    }
    prompt.terminal.type("\x7f\x7f\x7f\x7f\r"); // "1234" goes
    prompt.terminal.expect("stats prints 567 call stacks.");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, LiveLinesAppearAboveALineThatIsWrapped) {
    PromptOnTerminal prompt("expiring",
                            {.arguments = {"-e", "0.01"}, .environment = {}, .size = {24, 40}});
    const std::string shell = "shell echo 0123456789 0123456789 0123456789 :end";
    prompt.terminal.type(shell);
    prompt.terminal.expect_cursor_after((kPrompt + shell).substr(40));
    prompt.fixture->ask("leak");
    prompt.terminal.expect("backtrace:\n");
    prompt.terminal.expect_screen("the typed line again", [&](const Screen& screen) {
        const auto lines = screen.lines();
        return lines.size() > 2 && lines.back() == (kPrompt + shell).substr(40) &&
               lines[lines.size() - 2] == (kPrompt + shell).substr(0, 40) &&
               screen.line(lines.size() - 3).starts_with("()+");
    });
    prompt.terminal.type("\r");
    prompt.terminal.expect("\n0123456789 0123456789 0123456789 :end\n");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, LogLinesAppearAboveTheLine) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("list 9");
    prompt.terminal.expect_cursor_after("(memleax) list 9");
    prompt.terminal.type(kCtrlZ);
    prompt.terminal.expect_screen("a warning, and the typed line", [](const Screen& screen) {
        const auto lines = screen.lines();
        return screen.before_cursor() == "(memleax) list 9" && lines.size() > 1 &&
               lines[lines.size() - 2].starts_with("memleax: warning: not stopped: ");
    });
    prompt.terminal.type("\r");
    prompt.terminal.expect("stats prints 9 call stacks.");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

// The tracer's thread tells of what it sees, at any moment.
TEST(Prompt, LinesOfTheTracerAppearAboveTheLine) {
    PromptOnTerminal prompt("own_allocator",
                            {.arguments = {"--log", "debug"}, .environment = {}, .size = {}});
    prompt.terminal.type("list 9");
    prompt.terminal.expect_cursor_after("(memleax) list 9");
    const std::size_t before = prompt.terminal.text().size();
    prompt.fixture->go();
    prompt.terminal.expect_screen(
        "lines of the tracer, and the typed line", [&](const Screen& screen) {
            return prompt.terminal.text().find("memleax: debug: ", before) != std::string::npos &&
                   screen.before_cursor() == "(memleax) list 9";
        });
    for (const std::string& line : prompt.terminal.screen().lines()) {
        EXPECT_THAT(line, Not(::testing::ContainsRegex("list 9.*memleax:"))) << line;
        EXPECT_THAT(line, Not(::testing::ContainsRegex("memleax: .*memleax: "))) << line;
    }
    prompt.terminal.type("\r");
    prompt.terminal.expect("stats prints 9 call stacks.");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, FollowsTheTerminalsSize) {
    PromptOnTerminal prompt("expiring", {.arguments = {}, .environment = {}, .size = {24, 100}});
    const std::string line = "shell echo 0123456789 0123456789 :end";
    prompt.terminal.type(line);
    prompt.terminal.expect_cursor_after(kPrompt + line);
    prompt.terminal.resize({24, 30});
    prompt.terminal.expect_screen("a line that is wrapped", [&](const Screen& screen) {
        const auto lines = screen.lines();
        return lines.back() == (kPrompt + line).substr(30) && lines.size() > 1 &&
               lines[lines.size() - 2] == (kPrompt + line).substr(0, 30);
    });
    prompt.terminal.type("\r");
    prompt.terminal.expect("\n0123456789 0123456789 :end\n");
    prompt.expect_prompt();
    // Tables are as wide as the terminal is by now.
    prompt.fixture->ask("leak");
    prompt.run("stats");
    prompt.terminal.resize({24, 200});
    prompt.run("list 3");
    EXPECT_THAT(prompt.run("stats"), HasSubstr("slow_leak (expiring.c:10)"));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, AProgramGetsPlainLinesOfAnyWidth) {
    PromptOnTerminal prompt("expiring", {.size = {24, 40}});
    prompt.fixture->ask("leak");
    const std::string file = prompt.folder.file("stats");
    prompt.run("stats | cat > " + file);
    EXPECT_THAT(prompt.terminal.raw(), Not(HasSubstr("slow_leak")));
    const std::string text = test::read_file(file);
    constexpr const char* kInOneLine = " 1 [^\n]*slow_leak";
    EXPECT_THAT(text, ContainsRegex(kInOneLine));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    // The terminal gets what fits, in colours.
    EXPECT_THAT(prompt.run("stats"), Not(ContainsRegex(kInOneLine)));
    EXPECT_THAT(prompt.terminal.raw(), HasSubstr("\x1b[1m"));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, CtrlCCancelsTheLine) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("list 7");
    prompt.terminal.expect_cursor_after("(memleax) list 7");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect("list 7^C\n(memleax) ");
    prompt.terminal.expect_cursor_after(kPrompt);
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 20 call stacks."));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, CtrlCEndsASearchInTheHistory) {
    PromptOnTerminal prompt("expiring");
    prompt.run("list 8");
    prompt.terminal.type(kCtrlR + "lis");
    prompt.terminal.expect_screen("a search", [](const Screen& screen) {
        return screen.cursor_line() == "(reverse-i-search)`lis': list 8";
    });
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect_cursor_after(kPrompt);
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 8 call stacks."));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Prompt, AsksBeforeEvidenceIsThrownAway) {
    PromptOnTerminal prompt("expiring");
    prompt.fixture->ask("leak");
    prompt.run("intervals new");
    for (const char* no : {"n\r", "\r", "x\r"}) {
        prompt.terminal.type("intervals clear\r");
        prompt.terminal.expect("Forget all intervals, which verdicts rest on? (y or n) ");
        prompt.terminal.type(no);
        prompt.expect_prompt();
        EXPECT_THAT(prompt.run("dump 1"), HasSubstr("1 of 1 blocks still live"));
    }
    prompt.terminal.type("intervals drop\r");
    prompt.terminal.expect("Forget the oldest interval as evidence? (y or n) ");
    prompt.terminal.type(kCtrlC);
    prompt.expect_prompt();
    EXPECT_THAT(prompt.run("dump 1"), HasSubstr("1 of 1 blocks still live"));
    prompt.terminal.type("intervals clear\r");
    prompt.terminal.expect("(y or n) ");
    prompt.terminal.type("yes\r");
    prompt.terminal.expect("1 interval, from ");
    prompt.expect_prompt();
    EXPECT_THAT(prompt.run("dump 1"), Not(HasSubstr("still live")));
    // A script is not asked.
    test::write_file(prompt.folder.file("script"), "intervals clear\nlist\n");
    EXPECT_THAT(prompt.run("source " + prompt.folder.file("script")),
                HasSubstr("1 interval, from"));
    EXPECT_EQ(prompt.quit(), 0);
}

constexpr const char* kQuestion = "Let go of the target and quit? (y or n) ";

TEST(Prompt, CtrlCTwiceAsks) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect("^C\n(memleax) ");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect(kQuestion);
    prompt.terminal.type("n\r");
    prompt.expect_prompt();
    // What lies between counts anew.
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect("^C\n(memleax) ");
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 20 call stacks."));
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect("^C\n(memleax) ");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect(kQuestion);
    prompt.terminal.type("y\r");
    EXPECT_EQ(prompt.terminal.wait_for_end(), 0);
    EXPECT_THAT(prompt.terminal.text(), HasSubstr("ended by the user"));
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST(Prompt, AThirdCtrlCQuits) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect("^C\n(memleax) ");
    prompt.terminal.type(kCtrlC);
    prompt.terminal.expect(kQuestion);
    prompt.terminal.type(kCtrlC);
    EXPECT_EQ(prompt.terminal.wait_for_end(), 0);
    EXPECT_THAT(prompt.terminal.text(), HasSubstr("ended by the user"));
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST(Prompt, CtrlDQuits) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type(kCtrlD);
    EXPECT_EQ(prompt.terminal.wait_for_end(), 0);
    EXPECT_THAT(prompt.terminal.text(), HasSubstr("ended by the user"));
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST(Prompt, WaitsForNobodyInTheBackground) {
    Fixture fixture("expiring");
    // A shell with job control, that keeps the terminal for itself.
    Terminal shell({"/bin/bash", "--norc", "-i"}, {{"PS1", "$ "}, {"HISTFILE", ""}});
    shell.expect("$ ");
    shell.type(std::string(MEMLEAX_PROGRAM) + " -e 1000 " + std::to_string(fixture.pid()) + " &\r");
    shell.expect("memleax: watching ");
    shell.type("echo a$((6 * 7))b\r"); // what is typed is the shell's
    shell.expect("a42b");
    shell.type("kill -INT $!; wait $!; echo status=$?\r");
    shell.expect("ended by the user");
    shell.expect("status=0");
    shell.type("exit\r");
    shell.wait_for_end();
    EXPECT_THAT(shell.text(), Not(HasSubstr(kPrompt)));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Prompt, IsNotThereIfForbidden) {
    Fixture fixture("expiring");
    Terminal terminal({MEMLEAX_PROGRAM, "-n", std::to_string(fixture.pid())});
    terminal.expect("watching");
    terminal.type(kCtrlC);
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_THAT(terminal.text(), Not(HasSubstr(kPrompt)));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
