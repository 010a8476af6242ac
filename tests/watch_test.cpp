// SPDX-License-Identifier: GPL-3.0-or-later
// The prompt's `watch`, and --live: a screen that is drawn again and again, and is gone afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "prompt_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kCtrlC = "\x03";
constexpr const char* kAlternate = "\x1b[?1049h";
constexpr const char* kUsual = "\x1b[?1049l";

/// The screen's line, from the top, begins so.
std::function<bool(const Screen&)> line_begins(std::size_t row, const std::string& text) {
    return [row, text](const Screen& screen) { return screen.line(row).starts_with(text); };
}

std::function<bool(const Screen&)> shows(const std::string& text) {
    return
        [text](const Screen& screen) { return screen.picture().find(text) != std::string::npos; };
}

/// On its own screen since the last time it was not.
bool is_drawing(const Terminal& terminal) {
    const auto begin = terminal.raw().rfind(kAlternate);
    return begin != std::string::npos && terminal.raw().find(kUsual, begin) == std::string::npos;
}

TEST(Watch, DrawsUntilAKeyIsPressed) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("watch 100ms stats\r");
    prompt.terminal.expect_screen("its title", line_begins(0, "Every 0.1 s: stats  "));
    prompt.terminal.expect_screen("its text", line_begins(2, "No live blocks are known yet."));
    EXPECT_TRUE(is_drawing(prompt.terminal));
    prompt.fixture->ask("leak");
    prompt.terminal.expect_screen("what is new", shows("slow_leak"));
    prompt.terminal.expect_screen("nothing of the former text", [](const Screen& screen) {
        return screen.picture().find("No live blocks") == std::string::npos;
    });
    prompt.terminal.type("q");
    const std::string last = prompt.terminal.expect(kPrompt);
    EXPECT_THAT(last, HasSubstr("slow_leak")); // stays
    EXPECT_FALSE(is_drawing(prompt.terminal));
    EXPECT_EQ(prompt.run("# the key is not typed"), "");
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_EQ(prompt.fixture->quit(), 0);
}

TEST(Watch, CtrlCEndsItOnly) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("watch status\r");
    prompt.terminal.expect_screen("its title", line_begins(0, "Every 2 s: status  "));
    prompt.terminal.type(kCtrlC);
    prompt.expect_prompt();
    EXPECT_FALSE(is_drawing(prompt.terminal));
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 20 call stacks."));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Watch, ShowsWhatThereIsRoomFor) {
    PromptOnTerminal prompt("expiring", {.arguments = {}, .environment = {}, .size = {8, 60}});
    prompt.terminal.type("watch help\r");
    prompt.terminal.expect_screen("five lines", [](const Screen& screen) {
        return screen.line(0).starts_with("Every 2 s: help") && !screen.line(6).empty() &&
               screen.line(7).empty();
    });
    prompt.terminal.resize({12, 60});
    prompt.terminal.expect_screen("more lines",
                                  [](const Screen& screen) { return !screen.line(10).empty(); });
    prompt.terminal.type(" ");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

// A serial console, or expect's terminal.
TEST(Watch, FitsATerminalThatDoesNotKnowItsSize) {
    Fixture fixture("expiring");
    test::TemporaryFolder state;
    std::vector<std::string> command{"/bin/sh", "-c", "stty rows 0 cols 0; exec \"$@\"", "sh"};
    for (const std::string& word : memleax_command()) {
        command.push_back(word);
    }
    command.push_back(std::to_string(fixture.pid()));
    Terminal terminal(command, {{"XDG_STATE_HOME", state.file("")}, {"COLUMNS", ""}}, {24, 80});
    terminal.expect(kPrompt);
    terminal.type("watch help\r");
    terminal.expect_screen("twenty-one lines", [](const Screen& screen) {
        return screen.line(0).starts_with("Every 2 s: help  ") && !screen.line(22).empty() &&
               screen.line(23).empty();
    });
    EXPECT_THAT(terminal.text(), Not(HasSubstr(std::string(80, ' '))));
    terminal.type("q");
    terminal.expect(kPrompt);
    terminal.type("quit\r");
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Watch, LiveLinesWait) {
    PromptOnTerminal prompt("expiring",
                            {.arguments = {"-e", "0.01"}, .environment = {}, .size = {}});
    prompt.terminal.type("watch 100ms stats\r");
    prompt.terminal.expect_screen("its text", shows("No live blocks"));
    prompt.fixture->ask("leak");
    prompt.terminal.expect_screen("what is new", shows("slow_leak"));
    EXPECT_THAT(prompt.terminal.text(), Not(HasSubstr("memory expires")));
    prompt.terminal.type("q");
    prompt.terminal.expect("memory expires with 101 bytes");
    prompt.terminal.expect_cursor_after(kPrompt);
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(Watch, TheTargetsEndEndsIt) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("watch stats\r");
    prompt.terminal.expect_screen("its title", line_begins(0, "Every 2 s: stats"));
    EXPECT_EQ(prompt.fixture->quit(), 0);
    prompt.terminal.expect("The target has ended.");
    prompt.expect_prompt();
    EXPECT_FALSE(is_drawing(prompt.terminal));
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_TRUE(prompt.terminal.is_cooked());
}

class WatchSignal : public ::testing::TestWithParam<int> {};

TEST_P(WatchSignal, GivesTheTerminalBack) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    PromptOnTerminal prompt(fixture.pid(), {});
    prompt.terminal.type("watch stats\r");
    prompt.terminal.expect_screen("its title", line_begins(0, "Every 2 s: stats"));
    prompt.terminal.signal(GetParam());
    prompt.terminal.wait_for_end();
    EXPECT_FALSE(is_drawing(prompt.terminal));
    EXPECT_TRUE(prompt.terminal.is_cooked());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, WatchSignal, ::testing::Values(SIGTERM, SIGHUP, SIGSEGV),
                         [](const auto& instance) {
                             return std::string("SIG") + sigabbrev_np(instance.param);
                         });

TEST(Live, BeginsWithWatchStats) {
    Fixture fixture("expiring");
    test::TemporaryFolder state;
    Terminal terminal(
        [&] {
            auto command = memleax_command();
            command.insert(command.end(), {"--live", std::to_string(fixture.pid())});
            return command;
        }(),
        {{"XDG_STATE_HOME", state.file("")}});
    terminal.expect_screen("its title", line_begins(0, "Every 2 s: stats  "));
    terminal.type("q");
    terminal.expect(kPrompt);
    terminal.type("exit\r");
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Live, NeedsATerminal) {
    Memleax memleax({"--live", "1"});
    const auto result = memleax.finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 2);
    EXPECT_THAT(result.errors, StartsWith("memleax: --live: there is no terminal to draw on"));
}

} // namespace
} // namespace memleax::testing
