// SPDX-License-Identifier: GPL-3.0-or-later
// The freezer of control groups, both versions: a frozen process is not begun with; one that is
// frozen while it is watched is left when it is thawed, by memleax or by its guardian.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

struct Version {
    const char* name;
    const char* type;            ///< of the file system
    const char* option;          ///< of the file system's
    const char* control;         ///< file
    const char *freeze, *thaw;   ///< written to it
    const char *events, *frozen; ///< the file that says so, and what it says
};
void PrintTo(const Version& version, std::ostream* out) {
    *out << version.name;
}

/// A group of its own; empty where there is none to be had.
class Freezer {
  public:
    explicit Freezer(const Version& version) : version_(version) {
        std::ifstream mounts("/proc/self/mounts");
        for (std::string source, point, type, options, rest;
             mounts >> source >> point >> type >> options && std::getline(mounts, rest);) {
            const bool fits = type == version.type &&
                              ("," + options + ",").find(version.option) != std::string::npos;
            std::error_code failure;
            const fs::path folder = fs::path(point) / fmt::format("memleax-test-{}", getpid());
            if (fits && fs::create_directory(folder, failure)) {
                folder_ = folder;
                return;
            }
        }
    }
    ~Freezer() {
        if (!folder_.empty()) {
            put(version_.control, version_.thaw);
            std::error_code ignored;
            for (int i = 0; i < 1000 && !fs::remove(folder_, ignored); ++i) {
                ::poll(nullptr, 0, 1); // those in it have ended, and are about to go
            }
        }
    }
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;

    bool put(const std::string& file, const std::string& text) const {
        std::ofstream out(folder_ / file);
        out << text << std::flush;
        return out.good();
    }
    bool can_hold(pid_t pid) const {
        return !folder_.empty() && fs::exists(folder_ / version_.control) &&
               put("cgroup.procs", std::to_string(pid));
    }
    void freeze() const {
        ASSERT_TRUE(put(version_.control, version_.freeze));
        const auto deadline = std::chrono::steady_clock::now() + kDeadline;
        for (std::string text; text.find(version_.frozen) == std::string::npos;) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            text = test::read_file(folder_ / version_.events);
            ::poll(nullptr, 0, 1);
        }
    }
    void thaw() const { ASSERT_TRUE(put(version_.control, version_.thaw)); }

  private:
    Version version_;
    fs::path folder_;
};

class Frozen : public ::testing::TestWithParam<Version> {
  protected:
    void SetUp() override {
        if (!freezer_.can_hold(fixture_.pid())) {
            GTEST_SKIP() << "no " << GetParam().type << " that we may use here";
        }
        before_ = take_snapshot(fixture_.pid());
    }
    Memleax watch() {
        return Memleax({"-F", "json", "-e", "1000", std::to_string(fixture_.pid())});
    }
    void expect_as_before() {
        EXPECT_THAT(fixture_.ask("stop").failures, IsEmpty());
        EXPECT_THAT(differences(before_, take_snapshot(fixture_.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture_.quit(), 0);
    }
    /// So that all that it calls is known, and slots are there: it is not frozen in the midst of
    /// mapping them.
    void work_once() { EXPECT_THAT(fixture_.go().failures, IsEmpty()); }
    void work() {
        fixture_.process().send("spin");
        ASSERT_EQ(fixture_.process().read_line(), "spinning");
    }

    Freezer freezer_{GetParam()}; // goes last: a frozen fixture could not even be killed
    Fixture other_{"expiring"};   // not in it; the guardian would come to it after a younger one
    Fixture fixture_{"threads16"};
    TargetSnapshot before_;
};

TEST_P(Frozen, IsNotBegunWith) {
    work();
    freezer_.freeze();
    const auto result = watch().finish();
    freezer_.thaw();
    EXPECT_EQ(WEXITSTATUS(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("its control group is frozen (/"));
    expect_as_before();
}

// Once a second a thread that hits a breakpoint is asked for SIGTRAP's action. With one that is
// frozen in that call nothing can be put back before the thaw (docs/limits.md): then once more.
TEST_P(Frozen, WhileWatchedIsLeftWhenItIsThawed) {
    constexpr int kMostTries = 5;
    bool in_call = true;
    for (int i = 0; in_call && i < kMostTries; ++i) {
        Memleax memleax = watch();
        memleax.wait_until_watching();
        work_once();
        work();
        freezer_.freeze();
        memleax.interrupt();
        const auto line = memleax.process().find_error_line("it can be left when that is thawed");
        ASSERT_TRUE(line);
        in_call = line->find("while it executed something for memleax") != std::string::npos;
        if (!in_call) {
            EXPECT_THAT(unlike_their_files(take_snapshot(fixture_.pid())), IsEmpty());
        }
        freezer_.thaw();
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json().at("session").at("end_reason"), "user");
        if (in_call) {
            EXPECT_THAT(fixture_.ask("stop").failures, IsEmpty());
        }
    }
    ASSERT_FALSE(in_call);
    expect_as_before();
}

TEST_P(Frozen, WhileWatchedIsLeftByTheGuardian) {
    Memleax memleax = watch();
    memleax.wait_until_watching();
    work_once();
    work();
    freezer_.freeze();
    memleax.process().signal(SIGKILL);
    EXPECT_TRUE(memleax.process().find_error_line("it can be left when that is thawed"));
    EXPECT_THAT(unlike_their_files(take_snapshot(fixture_.pid())), IsEmpty());
    freezer_.thaw();
    EXPECT_THAT(memleax.finish().errors, HasSubstr("is as it was before"));
    expect_as_before();
}

// At any moment: in the midst of something that a thread does for us nothing can be put back.
TEST_P(Frozen, WhileItBeginsToWorkIsLeftWhenItIsThawed) {
    Memleax memleax = watch();
    memleax.wait_until_watching();
    work();
    freezer_.freeze();
    memleax.interrupt();
    EXPECT_TRUE(memleax.process().find_error_line("it can be left when that is thawed"));
    freezer_.thaw();
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_as_before();
}

TEST_P(Frozen, AndThawedAgainIsWatchedOn) {
    Memleax memleax = watch();
    memleax.wait_until_watching();
    fixture_.process().send("go");
    for (int i = 0; i < 5; ++i) {
        freezer_.freeze();
        freezer_.thaw();
    }
    const FixtureAnswer answer = read_answer(fixture_.process());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    expect_as_before();
}

// However long the freeze lasts: all that was changed in the other one is put back, its code runs,
// and a thread that sleeps, and so has not been let go of, is when it stops for a signal.
TEST_P(Frozen, HoldsUpNoOtherProcess) {
    const std::string frozen = std::to_string(fixture_.pid());
    const std::string other = std::to_string(other_.pid());
    for (const bool first : {false, true}) {
        Memleax memleax(
            {"-F", "json", "-e", "1000", first ? frozen : other, first ? other : frozen});
        memleax.wait_until_watching();
        freezer_.freeze();
        memleax.interrupt();
        ASSERT_TRUE(memleax.process().find_error_line("it can be left when that is thawed"));
        ASSERT_THAT(unlike_their_files(take_snapshot(other_.pid())), IsEmpty());
        ASSERT_EQ(kill(other_.pid(), SIGWINCH), 0);
        EXPECT_THAT(other_.ask("leak").failures, IsEmpty());
        freezer_.thaw();
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
    }
    EXPECT_EQ(other_.quit(), 0);
    expect_as_before();
}

TEST_P(Frozen, HoldsUpNoOtherProcessWhenTheGuardianLeaves) {
    Memleax memleax(
        {"-F", "json", "-e", "1000", std::to_string(fixture_.pid()), std::to_string(other_.pid())});
    memleax.wait_until_watching();
    freezer_.freeze();
    memleax.process().signal(SIGKILL);
    for (const auto& [pid, text] : {std::pair(other_.pid(), "is as it was before"),
                                    {fixture_.pid(), "has its own code back"}}) {
        const auto line = memleax.process().find_error_line(fmt::format("process {} ", pid));
        ASSERT_TRUE(line);
        ASSERT_THAT(*line, HasSubstr(text));
    }
    EXPECT_THAT(other_.ask("leak").failures, IsEmpty());
    freezer_.thaw();
    EXPECT_THAT(memleax.finish().errors,
                HasSubstr(fmt::format("process {} is as it was before", fixture_.pid())));
    EXPECT_EQ(other_.quit(), 0);
    expect_as_before();
}

INSTANTIATE_TEST_SUITE_P(Versions, Frozen,
                         ::testing::Values(Version{"version_1", "cgroup", ",freezer,",
                                                   "freezer.state", "FROZEN", "THAWED",
                                                   "freezer.state", "FROZEN"},
                                           Version{"version_2", "cgroup2", ",", "cgroup.freeze",
                                                   "1", "0", "cgroup.events", "frozen 1"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace memleax::testing
