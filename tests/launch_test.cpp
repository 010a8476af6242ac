// SPDX-License-Identifier: GPL-3.0-or-later
// `memleax -- COMMAND`: watched from before its first allocation, in the constructors of shared
// libraries; the command has the stdin and stdout that memleax has.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "filter_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Launch : public ::testing::Test {
  protected:
    Launch() {
        std::string path = ::testing::TempDir() + "memleax-launch-XXXXXX";
        folder_ = ::mkdtemp(path.data());
    }
    ~Launch() override {
        if (!HasFailure()) { // else its report is worth a look
            std::filesystem::remove_all(folder_);
        }
    }
    Memleax start(const std::vector<std::string>& command) const {
        std::vector<std::string> arguments{"-F", "json", "-e", "1000", "-o", report_path(), "--"};
        arguments.insert(arguments.end(), command.begin(), command.end());
        return Memleax(arguments);
    }
    std::string report_path() const { return folder_ + "/report.json"; }
    nlohmann::json report() const {
        std::ifstream file(report_path());
        return nlohmann::json::parse(file);
    }
    std::string folder_;
};

TEST_F(Launch, LeaksInConstructorsAreSeen) {
    Memleax memleax = start({fixture_path("constructor_leak")});
    memleax.wait_until_watching();
    const FixtureAnswer answer = memleax.let_fixture_go();
    EXPECT_EQ(answer.truth.at("constructor_block").blocks, 5);
    EXPECT_EQ(answer.truth.at("preinit_block").blocks, 1);
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(report().at("session").at("end_reason"), "target-exit");
    expect_truth(report(), answer, WatchedFrom::start);
}

TEST_F(Launch, EveryAllocationFunctionIsSeen) {
    for (const char* name : {"alloc_all-O2-nofp-pie", "alloc_all-O0-fp-nopie",
                             "alloc_all_cxx-O2-nofp-nopie", "threads16"}) {
        SCOPED_TRACE(name);
        Memleax memleax = start({fixture_path(name)});
        memleax.wait_until_watching();
        const FixtureAnswer answer = memleax.let_fixture_go();
        const auto result = memleax.quit_fixture_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(report(), answer, WatchedFrom::start);
    }
}

// Left by Ctrl-C, the command goes on, untraced and unpatched.
TEST_F(Launch, TheCommandOutlivesMemleax) {
    Memleax memleax = start({fixture_path("threads16")});
    const std::string watching = memleax.wait_until_watching();
    const FixtureAnswer watched = memleax.let_fixture_go();
    memleax.interrupt();
    EXPECT_TRUE(memleax.process().wait_for_exit());
    EXPECT_EQ(report().at("session").at("end_reason"), "user");
    expect_truth(report(), watched, WatchedFrom::start);

    const pid_t pid = report().at("target").at("pid");
    EXPECT_THAT(watching, ::testing::HasSubstr(std::to_string(pid)));
    for (const auto& [tid, thread] : take_snapshot(pid).threads) {
        EXPECT_EQ(thread.tracer, 0);
        EXPECT_FALSE(thread.stopped);
    }
    memleax.process().send("go");
    EXPECT_THAT(read_answer(memleax.process()).failures, IsEmpty());
    memleax.process().send("quit");
    EXPECT_EQ(memleax.process().read_line(), std::nullopt); // it has closed its stdout: it ended
}

// Once left, it is a child of ours as any other: its stop by a signal is nobody's but its own.
TEST_F(Launch, ACommandThatIsStoppedIsLeftStopped) {
    Memleax memleax = start({fixture_path("threads16")});
    const std::string watching = memleax.wait_until_watching();
    const pid_t pid = std::stoi(watching.substr(watching.find("watching ") + 9));
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
    memleax.interrupt();
    EXPECT_TRUE(memleax.process().wait_for_exit());
    for (const auto& [tid, thread] : take_snapshot(pid).threads) {
        EXPECT_EQ(thread.tracer, 0);
        EXPECT_TRUE(thread.stopped);
    }
    kill(pid, SIGCONT);
    memleax.process().send("quit");
    while (memleax.process().read_line()) { // until it has ended
    }
}

TEST_F(Launch, ArgumentsArriveAsTheyAre) {
    Memleax memleax =
        start({"/bin/sh", "-c", "printf '<%s>' \"$@\"; exit 3", "sh", "-e", "5 6", ""});
    const auto result = memleax.finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 3) << result.errors;
    EXPECT_EQ(result.output, "<-e><5 6><>");
    EXPECT_EQ(report().at("session").at("end_reason"), "target-exit");
}

// As for a command of nohup(1), or of a shell's trap.
TEST_F(Launch, IgnoredSignalsStayIgnored) {
    const std::string command = "/bin/grep ^SigIgn /proc/self/status";
    for (const std::string ignored : {"", "trap '' PIPE XFSZ CHLD TTOU; ", "trap '' HUP XFSZ; "}) {
        const auto output_of = [&](const std::string& prefix) {
            ChildProcess shell({"/bin/bash", "-c", ignored + "exec " + prefix + command});
            shell.wait_for_end();
            return shell.output();
        };
        const std::string alone = output_of("");
        EXPECT_THAT(alone, ::testing::StartsWith("SigIgn:"));
        EXPECT_EQ(output_of(MEMLEAX_PROGRAM " -q -o /dev/null -- "), alone) << ignored;
    }
}

TEST_F(Launch, TheCommandsStatusIsOurs) {
    const std::vector<std::string> shell{"--", "/bin/sh", "-c"};
    const auto status_of = [&shell](const std::string& script, std::vector<std::string> words) {
        words.insert(words.end(), shell.begin(), shell.end());
        words.push_back(script);
        const auto result = Memleax(words).finish();
        EXPECT_TRUE(WIFEXITED(result.status)) << result.errors;
        return WEXITSTATUS(result.status);
    };
    EXPECT_EQ(status_of("exit 0", {"-q"}), 0);
    EXPECT_EQ(status_of("exit 7", {"-q"}), 7);
    EXPECT_EQ(status_of("kill -KILL $$", {"-q"}), 128 + SIGKILL);
    EXPECT_EQ(status_of("exit 7", {"-q", "--error-exitcode", "9"}), 7) << "nothing has expired";
}

// Which Yama may want (allowed_tracer_test): this one ends at that call.
TEST_F(Launch, TheGuardianMayTraceIt) {
    Memleax::Result result;
    bool is_filtered = false;
    std::thread([&] { // the filter goes with it
        is_filtered = end_at_set_ptracer(std::nullopt);
        result = start({"/bin/true"}).finish();
    })
        .join();
    ASSERT_TRUE(is_filtered);
    EXPECT_THAT(result.errors, HasSubstr("/bin/true ended before it was started"));
}

TEST_F(Launch, NoSuchCommand) {
    Memleax memleax = start({folder_ + "/none"});
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 1 << 8) << result.errors;
    EXPECT_THAT(result.errors, ::testing::HasSubstr("/none"));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
}

} // namespace
} // namespace memleax::testing
