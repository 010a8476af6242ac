// SPDX-License-Identifier: GPL-3.0-or-later
// Runs in scripts: exact on stdout, silent otherwise.
#include <array>
#include <csignal>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "prompt_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::string pid_of(const Fixture& fixture) {
    return std::to_string(fixture.pid());
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++count;
    }
    return count;
}

TEST(TimedRun, PrintsNothingButTheReport) {
    Fixture fixture("expiring");
    const auto result = Memleax({"-t", "0.05", pid_of(fixture)}).finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output,
                StartsWith("\nNothing to judge: no allocation was seen\n== Watched "));
    EXPECT_THAT(result.output, HasSubstr("the time is up"));
    EXPECT_EQ(count_of(result.errors, "\n"), 1U) << result.errors; // "watching"
    EXPECT_EQ(fixture.quit(), 0);
}

// On a terminal as well: no prompt.
TEST(TimedRun, DoesNotPrompt) {
    Fixture fixture("expiring");
    Terminal terminal({MEMLEAX_PROGRAM, "-t", "0.05", "--progress", "never", pid_of(fixture)});
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_THAT(terminal.text(), Not(HasSubstr(kPrompt)));
    EXPECT_THAT(terminal.text(), HasSubstr("the time is up"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TimedRun, RunsCommandsBeforeItLeaves) {
    Fixture fixture("expiring");
    Memleax memleax({"-t", "0.3", "-x", "list 3", "-x", " list 4", "-x", "stats abc", "-x",
                     "shell grep TracerPid /proc/" + pid_of(fixture) + "/status", "-x", "show 1",
                     pid_of(fixture)});
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(
        result.output,
        ::testing::ContainsRegex("^stats prints 3 call stacks.\nstats prints 4 call stacks.\n"
                                 "TracerPid:\t[1-9][0-9]*\n" // it is still watched
                                 "0x1 is in no live block"));
    EXPECT_THAT(result.output, HasSubstr("\n== Watched "));
    EXPECT_THAT(result.errors, HasSubstr("memleax: error: 'abc' is not the number of call stacks"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TimedRun, RunsCommandsAfterCtrlCToo) {
    Fixture fixture("expiring");
    Memleax memleax({"-t", "1000", "-x", "status", pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.ask("leak");
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.output, HasSubstr("live        1 block, 101 B\n"));
    EXPECT_THAT(result.output, HasSubstr("ended by the user"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TimedRun, RunsCommandsAfterTheTargetsExit) {
    Fixture fixture("expiring");
    Memleax memleax(
        {"-e", "1000", "-F", "json", "-x", "dump all", "-x", "status", pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.ask("leak");
    EXPECT_EQ(fixture.quit(), 0);
    const auto result = memleax.finish();
    EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit"); // one document
    EXPECT_EQ(live_leaks(result.json()), (Leaks{{"slow_leak", {1, 101}}}));
    EXPECT_THAT(result.errors, HasSubstr("slow_leak()+"));
    EXPECT_THAT(result.errors, HasSubstr("none: it has ended"));
}

TEST(TimedRun, KeepsJsonOneDocument) {
    Fixture fixture("expiring");
    const auto result = Memleax({"-t", "0.1", "-F", "json", "-x", "help", "-x",
                                 "shell echo shell >&2", "--interval", "0.02", pid_of(fixture)})
                            .finish();
    EXPECT_EQ(result.json().at("session").at("end_reason"), "time");
    EXPECT_THAT(result.errors, HasSubstr("blocks ID [N]"));
    EXPECT_THAT(result.errors, HasSubstr(" worst of "));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TimedRun, RefusesAWrongCommandBeforeTheAttach) {
    Fixture fixture("expiring");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (const char* wrong : {"frobnicate", "st", "", "   ", "# comment"}) {
        const auto result = Memleax({"-t", "0.1", "-x", wrong, pid_of(fixture)}).finish();
        EXPECT_EQ(WEXITSTATUS(result.status), 2) << wrong;
        EXPECT_THAT(result.errors, HasSubstr("-x: ")) << wrong;
        EXPECT_THAT(result.errors, Not(HasSubstr("watching"))) << wrong;
        EXPECT_EQ(result.output, "");
    }
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(TimedRun, CtrlCEndsEarlyWithTheReportSoFar) {
    Fixture fixture("expiring");
    Terminal terminal({MEMLEAX_PROGRAM, "-t", "1000", "-e", "0.01", pid_of(fixture)});
    terminal.expect("watching");
    fixture.ask("leak");
    terminal.expect("memory expires with 101 bytes");
    terminal.type("\x03");
    EXPECT_EQ(terminal.wait_for_end(), 0);
    EXPECT_THAT(terminal.text(), HasSubstr("ended by the user"));
    EXPECT_THAT(terminal.text(), HasSubstr("CallStack[1]: may-leak=1 (101 bytes)"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Interval, PrintsTheWorstSoOften) {
    Fixture fixture("expiring");
    Memleax memleax({"--interval", "0.05,3", "-e", "1000", "--top", "1", pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.ask("leak");
    fixture.ask("hold");
    const auto result = memleax.finish(); // by itself
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(count_of(result.output, " worst of "), 3U) << result.output;
    EXPECT_THAT(result.output, HasSubstr("] the 1 worst of 2 call stacks with live blocks\n"));
    EXPECT_THAT(result.output, HasSubstr("the time is up"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Interval, GoesOnWithoutACount) {
    Fixture fixture("expiring");
    Memleax memleax({"--interval", "0.01", pid_of(fixture)});
    for (int i = 0; i < 5;) {
        const auto line = memleax.process().read_line();
        ASSERT_TRUE(line);
        i += line->find(" worst of ") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Progress, IsALineThatGoes) {
    Fixture fixture("expiring");
    Terminal terminal({MEMLEAX_PROGRAM, "-t", "3", pid_of(fixture)});
    terminal.expect_screen("a line of progress", [](const Screen& screen) {
        return screen.cursor_line().find(" of 3 s, ") != std::string::npos;
    });
    // A warning has a line of its own.
    terminal.signal(SIGTSTP);
    terminal.expect_screen("a warning", [](const Screen& screen) {
        for (const std::string& line : screen.lines()) {
            if (line.starts_with("memleax: warning: not stopped: ")) {
                return true;
            }
        }
        return false;
    });
    EXPECT_EQ(terminal.wait_for_end(), 0);
    for (const std::string& line : terminal.screen().lines()) {
        EXPECT_THAT(line, Not(HasSubstr(" of 3 s, ")));
    }
    EXPECT_THAT(terminal.screen().lines(), ::testing::Contains(StartsWith("== Watched ")));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Progress, IsOnATerminalOnly) {
    Fixture fixture("expiring");
    const auto result = Memleax({"-t", "1.5", pid_of(fixture)}).finish();
    EXPECT_THAT(result.errors, Not(HasSubstr(" of 1.5 s, ")));
    EXPECT_THAT(result.output + result.errors, Not(HasSubstr("\x1b")));
    Terminal never({MEMLEAX_PROGRAM, "-t", "1.5", "--progress", "never", pid_of(fixture)});
    EXPECT_EQ(never.wait_for_end(), 0);
    EXPECT_THAT(never.text(), Not(HasSubstr(" of 1.5 s, ")));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ErrorExitcode, TellsOfLeaksInATimedRun) {
    for (const bool leaks : {true, false}) {
        Fixture fixture("expiring");
        Memleax memleax(
            {"-t", "0.5", "-e", "0.01", "--error-exitcode", "9", "-x", "list", pid_of(fixture)});
        memleax.wait_until_watching();
        fixture.ask(leaks ? "leak" : "nothing");
        EXPECT_EQ(WEXITSTATUS(memleax.finish().status), leaks ? 9 : 0);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

TEST(ErrorExitcode, IsForAVerdictOrForWhatExpires) {
    const auto status_for = [](const char* kind, const char* request) {
        Fixture fixture("expiring");
        Memleax memleax({"-t", "0.5", "-e", "0.01", "--error-exitcode", "9", "--errors-for", kind,
                         pid_of(fixture)});
        memleax.wait_until_watching();
        fixture.ask(request);
        const int status = WEXITSTATUS(memleax.finish().status);
        EXPECT_EQ(fixture.quit(), 0);
        return status;
    };
    EXPECT_EQ(status_for("suspect", "leak"), 9) << "too early is no all-clear";
    EXPECT_EQ(status_for("expired", "leak"), 9);
    EXPECT_EQ(status_for("leaking", "leak"), 0);
    EXPECT_EQ(status_for("expired", "nothing"), 0);
}

// As long as it takes to tell that nothing is added to it any more; both at the same time.
TEST(ErrorExitcode, ACacheThatIsFullIsNoError) {
    struct Run {
        int status; ///< that memleax is to end with
        Fixture fixture{"expiring"};
        std::unique_ptr<Memleax> memleax{};
    };
    std::array<Run, 2> runs{Run{0}, Run{9}};
    for (Run& run : runs) {
        std::vector<std::string> words{"-t", "12", "-e", "1", "--error-exitcode", "9"};
        if (run.status != 0) {
            words.insert(words.end(), {"--errors-for", "expired"});
        }
        words.push_back(pid_of(run.fixture));
        run.memleax = std::make_unique<Memleax>(words);
        run.memleax->wait_until_watching();
        for (int i = 0; i < 40; ++i) {
            run.fixture.ask("hold");
        }
    }
    for (Run& run : runs) {
        const auto result = run.memleax->finish();
        EXPECT_EQ(WEXITSTATUS(result.status), run.status) << result.output;
        EXPECT_EQ(run.fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
