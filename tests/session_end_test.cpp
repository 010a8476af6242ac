// SPDX-License-Identifier: GPL-3.0-or-later
// Every way in which a session ends: the target goes on as it was, and the status is 0.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string end_reason(const Memleax::Result& result) {
    return result.json().at("session").at("end_reason").get<std::string>();
}

class SignalEnds : public ::testing::TestWithParam<int> {};

TEST_P(SignalEnds, TheSession) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    memleax.process().signal(GetParam());
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "user");
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, SignalEnds,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU));

// Its signal waits for memleax already: nothing has been seen, which is no all-clear.
TEST(SessionEnd, BeforeTheWatchingBegins) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (const std::string signal : {"INT", "TERM"}) {
        std::vector<std::string> words{"/usr/bin/env", "--block-signal=" + signal, "/bin/sh", "-c",
                                       "kill -" + signal + " $$; exec \"$0\" \"$@\""};
        for (const std::string& word : memleax_command()) {
            words.push_back(word);
        }
        words.insert(words.end(), {"-F", "json", std::to_string(fixture.pid())});
        const auto result = Memleax(CommandLine{words}).finish();
        EXPECT_EQ(result.status, 1 << 8) << result.errors;
        EXPECT_EQ(result.output, "");
        EXPECT_EQ(result.errors, "memleax: error: interrupted before the watching began\n");
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// As nohup(1) does.
TEST(SessionEnd, NotByAHangupThatIsIgnored) {
    Fixture fixture("threads16");
    std::vector<std::string> words{"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""};
    for (const std::string& word : memleax_command()) {
        words.push_back(word);
    }
    words.insert(words.end(), {"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    Memleax memleax(CommandLine{words});
    memleax.wait_until_watching();
    memleax.process().signal(SIGHUP);
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(SessionEnd, ByTime) {
    Fixture fixture("threads16");
    Memleax memleax({"-F", "json", "-t", "0.2", std::to_string(fixture.pid())});
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "time");
    EXPECT_GE(result.json().at("session").at("duration_s").get<double>(), 0.2);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(SessionEnd, ByTheTargetsExit) {
    Fixture fixture("threads16");
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    EXPECT_EQ(fixture.quit(), 0);
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "target-exit");
}

TEST(SessionEnd, ByTheTargetsDeath) {
    Fixture fixture("threads16");
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().signal(SIGKILL);
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "target-exit");
}

// The fixture leaks 100s of blocks at few stacks; all of them expire.
TEST(SessionEnd, ByTheLimitOfBlocks) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "0.01", "-m", "5", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "limit");
    EXPECT_THAT(result.errors,
                ContainsRegex("memleax: 5 memory blocks expired at CallStack.[0-9]+.: "
                              "the limit is reached .--memory-block-max.\n"));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(SessionEnd, ByTheLimitOfCallStacksOfOneOfSeveralProcesses) {
    Fixture fixture("threads16");
    const std::string pid = std::to_string(fixture.pid());
    Memleax memleax({"-f", "-F", "json", "-e", "0.01", "-c", "1", pid});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(end_reason(result), "limit");
    EXPECT_THAT(result.errors, HasSubstr("memleax: [pid " + pid +
                                         "] 1 CallStack with expired memory: the limit is reached "
                                         "(--call-stack-max)\n"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(SessionEnd, ErrorExitcodeTellsOfLeaks) {
    for (const bool leaks : {true, false}) {
        Fixture fixture("threads16");
        Memleax memleax({"-q", "-e", "0.01", "-m", "5", "--error-exitcode", "42",
                         std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        if (leaks) {
            fixture.go();
        } else {
            memleax.interrupt();
        }
        const auto result = memleax.finish();
        EXPECT_EQ(WEXITSTATUS(result.status), leaks ? 42 : 0) << result.errors;
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// Ctrl-Z must not stop memleax: the target would stand at its next breakpoint for ever.
TEST(SessionEnd, IsNotBroughtAboutByCtrlZ) {
    Fixture fixture("threads16");
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    memleax.process().signal(SIGTSTP);
    EXPECT_TRUE(memleax.process().find_error_line("not stopped"));
    fixture.go(); // the target is served on
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(fixture.quit(), 0);
}

// memleax PID | head: nobody reads any more. The target is left properly.
// SIGXFSZ would kill us with our breakpoints in the target.
TEST(SessionEnd, WhenTheReportIsLargerThanFilesMayBe) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const std::string report =
        ::testing::TempDir() + "memleax-too-large-" + std::to_string(getpid());
    Memleax memleax(CommandLine{{"/usr/bin/prlimit", "--fsize=1000", MEMLEAX_PROGRAM, "-F", "json",
                                 "-o", report, std::to_string(fixture.pid())}});
    memleax.wait_until_watching();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    std::filesystem::remove(report);
    EXPECT_EQ(result.status, 1 << 8) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("cannot write the report: File too large"));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(SessionEnd, WhenTheReaderIsGone) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    ChildProcess pipe({"/bin/sh", "-c",
                       std::string("{ \"$0\" -e 0.01 \"$1\"; echo status $? >&2; } | head -n 1"),
                       MEMLEAX_PROGRAM, std::to_string(fixture.pid())});
    ASSERT_TRUE(pipe.find_error_line("watching"));
    fixture.go();
    ASSERT_TRUE(pipe.read_line()); // the one that head lets through
    ASSERT_TRUE(pipe.find_error_line("cannot write the report"));
    const auto status = pipe.find_error_line("status");
    EXPECT_THAT(status.value_or(""), HasSubstr("status 1"));
    pipe.wait_for_end();
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// Nor has there been anything to read.
TEST(SessionEnd, WhenTheReaderIsGoneBeforeTheFirstLine) {
    Fixture fixture("threads16");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    ChildProcess pipe({"/bin/sh", "-c",
                       std::string("{ \"$0\" -q \"$1\"; echo status $? >&2; } | :"),
                       MEMLEAX_PROGRAM, std::to_string(fixture.pid())});
    EXPECT_TRUE(pipe.find_error_line("cannot write the report"));
    EXPECT_THAT(pipe.find_error_line("status").value_or(""), HasSubstr("status 1"));
    pipe.wait_for_end();
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

// The live lines of the original memleax, as they come.
TEST(LiveLines, AppearWhileWatching) {
    Fixture fixture("expiring");
    Memleax memleax({"-e", "0.05", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const auto line = [&] { return memleax.process().read_line().value_or("(end)"); };
    fixture.ask("leak");
    EXPECT_EQ(line(), "CallStack[1]: memory expires with 101 bytes, backtrace:");
    EXPECT_THAT(line(), HasSubstr("  libc.so.6  malloc()+0"));
    EXPECT_THAT(line(), HasSubstr("  expiring  slow_leak()+"));
    std::string next = line();
    while (next.starts_with("    0x")) { // main and its callers
        next = line();
        if (next.find("  _start()") != std::string::npos) {
            break;
        }
    }
    for (int i = 2; i <= 11; ++i) { // a line at the tenth, none at the eleventh
        fixture.ask("leak");
    }
    EXPECT_EQ(line(), "CallStack[1]: memory expires with 101 bytes, 10 times by now");
    fixture.ask("hold");
    EXPECT_EQ(line(), "CallStack[2]: memory expires with 202 bytes, backtrace:");
    next = line();
    while (next.find("  _start()") == std::string::npos && next.starts_with("    0x")) {
        next = line();
    }
    fixture.ask("release");
    EXPECT_THAT(line(), ::testing::MatchesRegex(
                            "CallStack.2.: expired-memory frees after [0-9.]+ seconds"));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_THAT(result.output, HasSubstr("\nToo early to tell: "));
    EXPECT_THAT(result.output, HasSubstr("CallStack[1]: may-leak=11 (1111 bytes)\n"
                                         "    verdict: too early (seen for "));
    EXPECT_THAT(result.output, HasSubstr("    expired=11 (1111 bytes), free_expired=0 (0 bytes)\n"
                                         "    alloc=11 (1111 bytes), free=0 (0 bytes)\n"));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
