// SPDX-License-Identifier: GPL-3.0-or-later
// The watched process executes another program.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Code is as its file has it, and nobody traces: for a process that was never seen unwatched.
void expect_untouched(pid_t pid) {
    const TargetSnapshot now = take_snapshot(pid);
    for (const auto& [address, mapping] : now.mappings) {
        if (!mapping.executable || !mapping.is_of_file()) {
            EXPECT_TRUE(!mapping.executable || mapping.file.starts_with("[")) << mapping.line;
            continue;
        }
        std::istringstream words(mapping.line);
        std::string skipped;
        std::uint64_t offset = 0;
        words >> skipped >> skipped >> std::hex >> offset;
        std::ifstream file(mapping.file, std::ios::binary);
        file.seekg(static_cast<std::streamoff>(offset));
        std::string bytes(mapping.bytes.size(), '\0'); // the last page goes on with zeros
        file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        EXPECT_TRUE(bytes == mapping.bytes) << mapping.line;
    }
    for (const auto& [tid, thread] : now.threads) {
        EXPECT_EQ(thread.tracer, 0) << tid;
        EXPECT_FALSE(thread.stopped) << tid;
    }
}

class Exec : public ::testing::TestWithParam<const char*> {};

TEST_P(Exec, NewProgramIsWatchedFromItsFirstAllocation) {
    Stress stress(2);
    while (stress.next()) {
        Fixture fixture("execer", {fixture_path("threads16")});
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        fixture.process().send(GetParam());
        ASSERT_EQ(fixture.process().read_line(), "ready");
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, HasSubstr("executes another program"));
        expect_truth(result.json(), answer, WatchedFrom::start);
        expect_untouched(fixture.pid());
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// Its constructor allocates before main.
TEST_P(Exec, NewProgramsConstructorsAreSeen) {
    Fixture fixture("execer", {fixture_path("constructor_leak")});
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send(GetParam());
    ASSERT_EQ(fixture.process().read_line(), "ready");
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(answer.truth, Not(IsEmpty()));
    const Leaks live = live_leaks(result.json());
    for (const auto& [function, leak] : answer.truth) {
        ASSERT_TRUE(live.contains(function)) << function;
        EXPECT_EQ(live.at(function), leak) << function;
    }
    expect_untouched(fixture.pid());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(By, Exec, ::testing::Values("leader", "thread"),
                         [](const auto& instance) { return std::string(instance.param); });

// One program after the other, in the same process, each executed by another thread than the first,
// while memleax comes and goes.
TEST(ExecChain, AttachAndDetachAtAnyMoment) {
    Stress stress(6);
    while (stress.next()) {
        Fixture fixture("execer", {"--chain", "60"});
        fixture.process().send("go");
        for (int visit = 0; visit < 4 && !::testing::Test::HasFailure(); ++visit) {
            Memleax memleax({"-F", "json", "-t", std::to_string(0.002 * stress.number_to(20)),
                             std::to_string(fixture.pid())});
            const auto result = memleax.finish();
            // Programs that live for a few milliseconds can end the attach: it says so, and has
            // done nothing.
            EXPECT_TRUE(result.status == 0 ||
                        (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1))
                << result.status << result.errors;
        }
        EXPECT_EQ(fixture.process().read_line(), "ready");
        expect_untouched(fixture.pid());
        EXPECT_THAT(fixture.go().failures, IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

/// A program with the set-user-ID bit, of root's, and a user who has no privileges.
class Privileged : public ::testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) {
            GTEST_SKIP() << "only root can make a set-user-ID program of root's";
        }
        if (::access("/usr/bin/setpriv", X_OK) != 0) {
            GTEST_SKIP() << "setpriv is not installed";
        }
        program_ = folder_.file("privileged");
        test::copy_file(fixture_path("privileged"), program_);
        ASSERT_EQ(::chmod(program_.c_str(), 04755), 0);
        ChildProcess trial(as_nobody({program_, "now"}));
        const int status = trial.wait_for_end();
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
            GTEST_SKIP() << "set-user-ID programs get no privileges here (nosuid?): " << status
                         << trial.errors();
        }
    }
    static std::vector<std::string> as_nobody(std::vector<std::string> command) {
        const std::vector<std::string> drop{"/usr/bin/setpriv", "--reuid=65534", "--regid=65534",
                                            "--clear-groups"};
        command.insert(command.begin(), drop.begin(), drop.end());
        return command;
    }
    static void expect_ready(ChildProcess& process) { ASSERT_EQ(process.read_line(), "ready"); }

    test::TemporaryFolder folder_;
    std::string program_;
};

// The kernel gives it no privileges while an unprivileged process traces it (execve(2)); the user
// is told.
TEST_F(Privileged, ExecWhileAnUnprivilegedUserWatches) {
    for (const char* by : {"leader", "thread"}) {
        ChildProcess fixture(as_nobody({fixture_path("execer"), program_}));
        expect_ready(fixture);
        ChildProcess memleax(as_nobody(
            {MEMLEAX_PROGRAM, "-F", "json", "-e", "1000", std::to_string(fixture.pid())}));
        ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
        fixture.send(by);
        expect_ready(fixture);
        EXPECT_TRUE(memleax.find_error_line("without the privileges that this file gives"));
        fixture.send("go");
        FixtureAnswer answer = read_answer(fixture);
        EXPECT_EQ(answer.counts["gained"], 0);
        memleax.signal(SIGINT);
        EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
        expect_truth(nlohmann::json::parse(memleax.output()), answer);
        expect_untouched(fixture.pid());
        fixture.send("quit");
        EXPECT_EQ(fixture.wait_for_end(), 0);
    }
}

TEST_F(Privileged, ExecWhileRootWatches) {
    ChildProcess fixture(as_nobody({fixture_path("execer"), program_}));
    expect_ready(fixture);
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.send("leader");
    expect_ready(fixture);
    fixture.send("go");
    FixtureAnswer answer = read_answer(fixture);
    EXPECT_EQ(answer.counts["gained"], 1);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("privileges")));
    expect_truth(result.json(), answer);
    expect_untouched(fixture.pid());
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

// Not to be read by others, so not to be watched either: we say so, and the program runs.
TEST_F(Privileged, ExecOfAProgramThatWeMayNotRead) {
    ASSERT_EQ(::chmod(program_.c_str(), 04711), 0);
    ChildProcess fixture(as_nobody({fixture_path("execer"), program_}));
    expect_ready(fixture);
    ChildProcess memleax(
        as_nobody({MEMLEAX_PROGRAM, "-F", "json", "-e", "1000", std::to_string(fixture.pid())}));
    ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
    fixture.send("leader");
    expect_ready(fixture);
    fixture.send("go");
    EXPECT_THAT(read_answer(fixture).failures, IsEmpty());
    memleax.signal(SIGINT);
    const int status = memleax.wait_for_end();
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_THAT(memleax.errors(), HasSubstr("error")) << memleax.errors();
    expect_untouched(fixture.pid());
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

// A child by posix_spawn is traced until its exec, as it shares the memory.
TEST_F(Privileged, ChildByPosixSpawnGetsNoneEither) {
    ChildProcess fixture(as_nobody({fixture_path("execer"), program_, "now"}));
    expect_ready(fixture);
    ChildProcess memleax(
        as_nobody({MEMLEAX_PROGRAM, "-F", "json", "-e", "1000", std::to_string(fixture.pid())}));
    ASSERT_TRUE(memleax.find_error_line("watching")) << memleax.errors();
    fixture.send("vfork");
    const FixtureAnswer answer = read_answer(fixture);
    EXPECT_EQ(answer.counts.at("child_status"), 0);
    EXPECT_TRUE(memleax.find_error_line("without the privileges that this file gives"));
    memleax.signal(SIGINT);
    EXPECT_EQ(memleax.wait_for_end(), 0) << memleax.errors();
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

} // namespace
} // namespace memleax::testing
