// SPDX-License-Identifier: GPL-3.0-or-later
// However the prompt ends, the target is as it was, and so is the terminal.
#include <chrono>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "prompt_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A fixture whose state is known before the prompt comes.
struct Untouched {
    Fixture fixture{"threads16"};
    TargetSnapshot before = take_snapshot(fixture.pid());

    void expect(Meanwhile meanwhile = Meanwhile::idle) {
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), meanwhile), IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
};

TEST(PromptEnd, QuitAndCtrlDRestoreTheTarget) {
    for (const char* keys : {"quit\r", "\x04", "qu\r"}) {
        Untouched target;
        PromptOnTerminal prompt(target.fixture.pid(), {});
        prompt.terminal.type(keys);
        EXPECT_EQ(prompt.terminal.wait_for_end(), 0);
        EXPECT_TRUE(prompt.terminal.is_cooked());
        target.expect();
    }
}

TEST(PromptEnd, AHangUpRestoresTheTarget) {
    Untouched target;
    PromptOnTerminal prompt(target.fixture.pid(), {});
    prompt.terminal.type("sta");
    prompt.terminal.expect_cursor_after("(memleax) sta");
    prompt.terminal.hang_up();
    const int status = prompt.terminal.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status)) << status; // and not by a signal
    target.expect();
}

// nohup, or a SIGHUP that went elsewhere: reading the terminal fails.
TEST(PromptEnd, AHangUpWithoutItsSignalRestoresTheTarget) {
    Untouched target;
    test::TemporaryFolder folder;
    // Another leader gets the signal, and the prompt is in the foreground nevertheless.
    Terminal terminal({"/bin/sh", "-c", "trap '' HUP; \"$@\"; exit 0", "sh", MEMLEAX_PROGRAM,
                       std::to_string(target.fixture.pid())},
                      {{"XDG_STATE_HOME", folder.file("")}});
    terminal.expect(kPrompt);
    terminal.hang_up();
    const int status = terminal.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status)) << status;
    target.expect();
}

class PromptSignal : public ::testing::TestWithParam<int> {};

TEST_P(PromptSignal, RestoresTheTarget) {
    Untouched target;
    PromptOnTerminal prompt(target.fixture.pid(), {});
    prompt.terminal.type("sta");
    prompt.terminal.expect_cursor_after("(memleax) sta");
    prompt.terminal.signal(GetParam());
    EXPECT_EQ(prompt.terminal.wait_for_end(), 0);
    EXPECT_TRUE(prompt.terminal.is_cooked());
    // The report does not begin behind what was typed.
    EXPECT_THAT(prompt.terminal.screen().lines(),
                ::testing::Contains(::testing::StartsWith("== Watched ")));
    target.expect();
}
INSTANTIATE_TEST_SUITE_P(Signals, PromptSignal, ::testing::Values(SIGTERM, SIGHUP, SIGQUIT));

class PromptCrash : public ::testing::TestWithParam<int> {};

TEST_P(PromptCrash, RestoresTheTarget) {
    Untouched target;
    PromptOnTerminal prompt(target.fixture.pid(), {});
    prompt.terminal.type("sta");
    prompt.terminal.expect_cursor_after("(memleax) sta");
    EXPECT_FALSE(prompt.terminal.is_cooked()); // so there is something to put back
    prompt.terminal.signal(GetParam());
    const int status = prompt.terminal.wait_for_end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
    EXPECT_TRUE(prompt.terminal.is_cooked());
    target.expect();
}

// While the target works on 16 threads, any of which may be in a breakpoint.
TEST_P(PromptCrash, RestoresATargetAtWork) {
    Untouched target;
    target.fixture.process().send("spin");
    ASSERT_EQ(target.fixture.process().read_line(), "spinning");
    PromptOnTerminal prompt(target.fixture.pid(), {});
    prompt.terminal.signal(GetParam());
    const int status = prompt.terminal.wait_for_end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
    EXPECT_THAT(target.fixture.ask("stop").failures, IsEmpty());
    target.expect(Meanwhile::worked);
}

/// Those of the prompt's program but the main one and the one that traces: when that crashes, its
/// guardian restores the target. Nor those that block all signals, and live for a moment only
/// (visit_all_cpus()).
std::vector<pid_t> helping_threads(pid_t prompt, pid_t target) {
    const Tid tracer = try_read_process_info(Tid(target)).value().tracer;
    std::vector<pid_t> threads;
    for (const Tid tid : list_threads(Tid(prompt))) {
        const auto info = try_read_process_info(tid);
        const bool stays = info && (info->blocked_signals & signal_bit(SIGSEGV)) == 0;
        if (stays && tid.value() != prompt && tid != tracer) {
            threads.push_back(tid.value());
        }
    }
    return threads;
}

// The main thread does not go on beside it: it would tell of the end, and set the terminal's mode.
TEST_P(PromptCrash, OfAnyThreadRestoresTheTerminal) {
    constexpr std::size_t kRounds = 10; // of a race
    for (std::size_t i = 0, count = 1; i < kRounds * count; ++i) {
        Untouched target;
        PromptOnTerminal prompt(target.fixture.pid(), {});
        prompt.terminal.type("sta");
        prompt.terminal.expect_cursor_after("(memleax) sta");
        const auto threads = helping_threads(prompt.terminal.pid(), target.fixture.pid());
        ASSERT_THAT(threads, Not(IsEmpty()));
        count = threads.size();
        ASSERT_EQ(syscall(SYS_tgkill, prompt.terminal.pid(), threads[i % count], GetParam()), 0);
        const int status = prompt.terminal.wait_for_end();
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
        EXPECT_TRUE(prompt.terminal.is_cooked());
        EXPECT_THAT(prompt.terminal.text(), Not(HasSubstr("== Watched ")));
        target.expect();
    }
}
INSTANTIATE_TEST_SUITE_P(Signals, PromptCrash, ::testing::Values(SIGSEGV, SIGABRT, SIGBUS));

TEST(PromptEnd, TheTargetsExitLeavesTheDataForReading) {
    PromptOnTerminal prompt("expiring");
    prompt.fixture->ask("leak");
    prompt.terminal.type("dump al"); // stays on the line
    prompt.terminal.expect_cursor_after("(memleax) dump al");
    EXPECT_EQ(prompt.fixture->quit(), 0);
    prompt.terminal.expect(
        "The target has ended. What is known stays, for reading; 'quit' ends.\n");
    prompt.terminal.expect_cursor_after("(memleax) dump al");
    prompt.terminal.type("l\r");
    prompt.terminal.expect("slow_leak()");
    prompt.expect_prompt();
    const std::string status = prompt.run("status");
    EXPECT_THAT(status, HasSubstr("not watched any more"));
    EXPECT_THAT(status, HasSubstr("threads     none: it has ended"));
    EXPECT_THAT(prompt.run("pause"), HasSubstr("the target is not watched any more"));
    EXPECT_THAT(prompt.run("detach"), HasSubstr("the target is not watched any more"));
    EXPECT_THAT(prompt.run("threads"), HasSubstr("(has ended)"));
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_THAT(prompt.terminal.text(), HasSubstr("the process has ended"));
}

TEST(PromptEnd, TheTargetsExitDuringAPause) {
    PromptOnTerminal prompt("expiring");
    prompt.fixture->ask("leak");
    prompt.run("pause");
    EXPECT_EQ(prompt.fixture->quit(), 0);
    EXPECT_THAT(prompt.run("resume"), HasSubstr("memleax: error: "));
    EXPECT_THAT(prompt.run("dump all"), HasSubstr("slow_leak()"));
    EXPECT_EQ(prompt.quit(), 0);
}

// A pager that writes down what it is given, says so, and waits for a line from the terminal.
class Pager : public ::testing::Test {
  protected:
    void SetUp() override {
        test::write_file(script, "cat > " + record + "\necho PAGER $$\nread line < /dev/tty\n");
    }
    PromptOptions options(std::vector<std::string> arguments = {"-e", "1000"}) const {
        return {.arguments = std::move(arguments),
                .environment = {{"PAGER", "sh " + script}},
                .size = {10, 100}};
    }
    std::string recorded() const { return test::read_file(record); }
    test::TemporaryFolder folder;
    std::string script = folder.file("pager.sh");
    std::string record = folder.file("record");
};

TEST_F(Pager, GetsLongOutputOnly) {
    PromptOnTerminal prompt("expiring", options());
    EXPECT_THAT(prompt.run("list 3"), Not(HasSubstr("PAGER")));
    prompt.terminal.type("help\r");
    prompt.terminal.expect("PAGER ");
    EXPECT_THAT(prompt.terminal.text(), Not(HasSubstr("blocks ID [N]")));
    EXPECT_TRUE(prompt.terminal.is_cooked()); // the pager's, and not readline's
    prompt.terminal.type("on\r");
    prompt.expect_prompt();
    EXPECT_THAT(recorded(), HasSubstr("blocks ID [N]"));
    EXPECT_THAT(recorded(), HasSubstr("threads "));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST_F(Pager, LiveLinesWaitForItsEnd) {
    PromptOnTerminal prompt("expiring", options({"-e", "0.01"}));
    prompt.terminal.type("help\r");
    prompt.terminal.expect("PAGER ");
    for (int i = 1; i <= 10; ++i) {
        prompt.fixture->ask("leak");
    }
    // Time for a line that does not wait to be seen; one that does passes at any speed.
    const auto moment = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (std::chrono::steady_clock::now() < moment) {
        prompt.fixture->ask("tell");
    }
    prompt.terminal.type("\x1a"); // not even a warning
    prompt.terminal.type("on\r");
    const std::string meanwhile = prompt.terminal.expect("on\n");
    ASSERT_THAT(meanwhile, Not(HasSubstr("memory expires")));
    EXPECT_THAT(meanwhile, Not(HasSubstr("memleax: ")));
    prompt.terminal.expect("memory expires with 101 bytes, 10 times by now\n");
    prompt.terminal.expect_cursor_after(kPrompt);
    EXPECT_EQ(prompt.quit(), 0);
}

TEST_F(Pager, AHangUpDoesNotWaitForIt) {
    Untouched target;
    test::write_file(script, "trap '' HUP TERM INT; cat > " + record +
                                 "\necho PAGER $$\nexec 0</dev/null\nread line < " + record +
                                 ".fifo\n");
    ASSERT_EQ(mkfifo((record + ".fifo").c_str(), 0600), 0);
    PromptOnTerminal prompt(target.fixture.pid(), options());
    prompt.terminal.type("help\r");
    prompt.terminal.expect("PAGER ");
    prompt.terminal.hang_up();
    const int status = prompt.terminal.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status)) << status;
    target.expect();
    test::write_file(record + ".fifo", "\n"); // lets the pager end
}

TEST_F(Pager, CtrlCIsForIt) {
    PromptOnTerminal prompt("expiring", options());
    // Not "read": a shell that gets the signal just before it waits for input runs the trap after
    // the input. In "wait" it waits for the signal as well.
    test::write_file(script, "trap 'kill $!; echo interrupted; exit 0' INT; cat > /dev/null\n"
                             "sleep 1000 & echo PAGER $$\nwait\n");
    prompt.terminal.type("help\r");
    prompt.terminal.expect("PAGER ");
    prompt.terminal.type("\x03");
    prompt.terminal.expect("interrupted");
    prompt.expect_prompt();
    EXPECT_THAT(prompt.run("list"), HasSubstr("stats prints 20 call stacks."));
    EXPECT_EQ(prompt.quit(), 0);
}

TEST_F(Pager, IsNotMissedIfItIsCat) {
    for (const char* pager : {"cat", "", "/nonexistent/pager"}) {
        PromptOptions all = options();
        all.environment["PAGER"] = pager;
        PromptOnTerminal prompt("expiring", all);
        const std::string help = prompt.run("help");
        EXPECT_THAT(help, HasSubstr("blocks ID [N]")) << pager;
        EXPECT_THAT(help, HasSubstr("An empty line repeats")) << pager;
        EXPECT_EQ(prompt.quit(), 0);
    }
}

TEST(Shell, HasTheTerminal) {
    PromptOnTerminal prompt("expiring");
    prompt.terminal.type("shell echo reading; read word; echo got $word\r");
    prompt.terminal.expect("\nreading\n"); // so the terminal is in its usual mode
    prompt.terminal.type("this\r");
    prompt.terminal.expect("got this\n");
    prompt.expect_prompt();
    EXPECT_THAT(prompt.run("shell exit 3"), HasSubstr("warning: the program ended with status 3"));
    EXPECT_THAT(prompt.run("shell kill -9 $$"),
                HasSubstr("warning: the program was ended by signal 9"));
    EXPECT_EQ(prompt.quit(), 0);
}

// Nobody else would continue it.
TEST(Shell, IsContinuedIfItStops) {
    PromptOnTerminal prompt("expiring");
    EXPECT_THAT(prompt.run("shell kill -STOP $$; echo went on"), HasSubstr("went on\n"));
    EXPECT_EQ(prompt.quit(), 0);
}

struct ColourCase {
    std::vector<std::string> arguments;
    Environment environment;
    bool coloured;
};

TEST(Colour, IsWhatWasAskedFor) {
    const ColourCase cases[] = {
        {{}, {}, true},
        {{"--color", "auto"}, {{"NO_COLOR", ""}}, true}, // set, but empty
        {{}, {{"NO_COLOR", "1"}}, false},
        {{}, {{"TERM", "dumb"}}, false},
        {{"--color", "never"}, {}, false},
        {{"--color", "always"}, {{"NO_COLOR", "1"}}, true},
    };
    Fixture fixture("expiring");
    for (const ColourCase& each : cases) {
        PromptOnTerminal prompt(fixture.pid(), {each.arguments, each.environment, {24, 100}});
        const std::size_t before = prompt.terminal.raw().size();
        prompt.run("help list");
        EXPECT_EQ(prompt.terminal.raw().find("\x1b[1mlist [N]\x1b[0m", before) != std::string::npos,
                  each.coloured)
            << ::testing::PrintToString(each.arguments)
            << ::testing::PrintToString(each.environment);
        EXPECT_EQ(prompt.quit(), 0);
    }
}

TEST(Colour, IsNotInAPipe) {
    Fixture fixture("expiring");
    for (const bool always : {false, true}) {
        Memleax memleax({"-i", "--color", always ? "always" : "auto", "-x", "help list",
                         std::to_string(fixture.pid())},
                        {{"TERM", "xterm"}, {"NO_COLOR", ""}});
        memleax.process().close_input();
        const auto result = memleax.finish();
        EXPECT_EQ(result.output.find('\x1b') != std::string::npos, always) << result.output;
    }
}

} // namespace
} // namespace memleax::testing
