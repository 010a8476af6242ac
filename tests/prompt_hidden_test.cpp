// SPDX-License-Identifier: GPL-3.0-or-later
// While the prompt is hidden, what is typed is for somebody else, or waits.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "prompt_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// What epoll(7) waits for, as proc(5) has it: a descriptor and what may come of it in each line.
std::string polled_by(pid_t pid) {
    std::string all;
    for (const auto& entry :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fdinfo", pid))) {
        const std::string text = test::read_file(entry.path());
        if (text.find("tfd:") != std::string::npos) {
            all += text;
        }
    }
    return all;
}

// A terminal with a line in it is always ready: each poll(2) would return at once.
constexpr const char* kStdin = "tfd: +0 events: ";

TEST(PromptHidden, DoesNotPollForKeysWhileAProgramRuns) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("shell");
    prompt.terminal.expect_cursor_after("(memleax) shell");
    EXPECT_THAT(polled_by(prompt.terminal.pid()), ContainsRegex(kStdin));
    prompt.terminal.type(" echo begun; read line; echo \"<$line>\"\r");
    prompt.terminal.expect("\nbegun\n");
    EXPECT_THAT(polled_by(prompt.terminal.pid()),
                AllOf(HasSubstr("tfd:"), Not(ContainsRegex(kStdin))));
    prompt.terminal.type("for the program\r");
    prompt.terminal.expect("<for the program>");
    prompt.expect_prompt();
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 20 call stacks."));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST(PromptHidden, DoesNotPollForKeysDuringAWait) {
    PromptOnTerminal prompt("expiring",
                            {.arguments = {"-e", "0.01"}, .environment = {}, .size = {}});
    prompt.terminal.type("wait 1000\r");
    prompt.terminal.expect("wait 1000\n");
    prompt.terminal.type("list 7\r"); // once the prompt is there again
    prompt.fixture->ask("leak");
    prompt.terminal.expect("memory expires with 101 bytes"); // the wait has begun before
    EXPECT_THAT(polled_by(prompt.terminal.pid()),
                AllOf(HasSubstr("tfd:"), Not(ContainsRegex(kStdin))));
    prompt.fixture->quit(); // ends the wait
    prompt.terminal.expect("The target has ended.");
    prompt.terminal.expect("stats prints 7 call stacks.");
    prompt.expect_prompt();
    EXPECT_EQ(prompt.quit(), 0);
}

} // namespace
} // namespace memleax::testing
