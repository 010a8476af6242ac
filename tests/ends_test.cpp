// SPDX-License-Identifier: GPL-3.0-or-later
// A target that ends, in any way and at any moment: its parent sees the wait status that it would
// see without us, and memleax reports and exits well.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "elf_support.hpp"
#include "process_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

auto says_that_it_came_too_late() {
    return AnyOf(HasSubstr("no such process"), HasSubstr("has ended"),
                 HasSubstr("is dumping its core"));
}

/// fixtures/ender.c, which dumps its core into a folder of the test's.
class Ends : public ::testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        Fixture unwatched = fixture();
        end_after(unwatched, 100);
        status_ = unwatched.process().wait_for_end();
    }

    /// It ends once it has allocated so many blocks more.
    static void end_after(Fixture& fixture, int blocks) {
        fixture.process().send(std::to_string(blocks));
    }

    Fixture fixture() const { return Fixture("ender", {GetParam(), folder_.file(".")}); }
    static Memleax attach_to(const Fixture& fixture) {
        return Memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    }

    /// Why there is no core, if one is missed: not begun, cut short, no room.
    std::string about_cores() const {
        std::string text = "in the folder for the core:";
        for (const auto& entry : std::filesystem::directory_iterator(folder_.file("."))) {
            text +=
                fmt::format(" {} ({} bytes)", entry.path().filename().string(), entry.file_size());
        }
        return text + fmt::format(" free: {} bytes\n",
                                  std::filesystem::space(folder_.file(".")).available);
    }

    test::TemporaryFolder folder_;
    int status_ = -1;
};

TEST_P(Ends, WhileItIsWatched) {
    Stress stress(2);
    while (stress.next()) {
        Fixture target = fixture();
        Memleax memleax = attach_to(target);
        memleax.wait_until_watching();
        end_after(target, 20 + stress.number_to(300));
        EXPECT_EQ(target.process().wait_for_end(), status_) << about_cores();
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit");
        EXPECT_GT(result.json().at("session").at("events").at("alloc"), 0);
        EXPECT_THAT(result.errors, Not(HasSubstr("error"))) << result.errors;
    }
}

// It may be gone before it is found, while it is seized, while breakpoints are put in, or after.
TEST_P(Ends, WhileWeAttach) {
    Stress stress(6);
    while (stress.next()) {
        Fixture target = fixture();
        Memleax memleax = attach_to(target);
        // Untraced it allocates some ten thousand blocks in the time that an attach takes.
        end_after(target, stress.number_to(share_of(60'000)));
        EXPECT_EQ(target.process().wait_for_end(), status_) << about_cores();
        const auto result = memleax.finish();
        if (result.status == 0) {
            EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit");
        } else {
            ASSERT_TRUE(WIFEXITED(result.status)) << result.errors;
            EXPECT_EQ(WEXITSTATUS(result.status), 1);
            EXPECT_THAT(result.errors, says_that_it_came_too_late());
            EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1)
                << result.errors;
        }
    }
}

TEST_P(Ends, WhileWeDetach) {
    Stress stress(6);
    while (stress.next()) {
        Fixture target = fixture();
        Memleax memleax = attach_to(target);
        memleax.wait_until_watching();
        end_after(target, stress.number_to(100));
        memleax.interrupt();
        EXPECT_EQ(target.process().wait_for_end(), status_) << about_cores();
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.json().at("session").at("end_reason"), AnyOf("target-exit", "user"));
        EXPECT_THAT(result.errors, Not(HasSubstr("error"))) << result.errors;
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, Ends,
                         ::testing::Values("return", "exit", "_exit", "exit_of_thread",
                                           "many_exits", "leader_first", "abort", "segv", "trap",
                                           "sigterm", "sigterm_to_thread", "sigkill",
                                           "exec_of_thread"),
                         [](const auto& instance) { return instance.param; });

class Killed : public ::testing::TestWithParam<int> {};

// From outside, at every moment of a visit.
TEST_P(Killed, AtAnyMoment) {
    Stress stress(10);
    while (stress.next()) {
        Fixture target("ender", {"exit"});
        Memleax memleax({"-F", "json", "--log", "debug", std::to_string(target.pid())});
        const int moment = stress.number_to(5);
        if (moment > 1) {
            EXPECT_TRUE(memleax.process().find_error_line("breakpoint at"));
        }
        if (moment > 2) {
            memleax.wait_until_watching();
        }
        if (moment > 3) {
            memleax.interrupt();
        }
        target.process().signal(GetParam());
        const int status = target.process().wait_for_end();
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
        const auto result = memleax.finish();
        ASSERT_TRUE(WIFEXITED(result.status)) << result.errors;
        if (moment > 2) {
            EXPECT_EQ(WEXITSTATUS(result.status), 0) << result.errors;
        } else if (WEXITSTATUS(result.status) != 0) {
            EXPECT_EQ(WEXITSTATUS(result.status), 1) << result.errors;
            EXPECT_THAT(result.errors, says_that_it_came_too_late());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Signals, Killed, ::testing::Values(SIGKILL, SIGTERM, SIGSEGV, SIGTRAP));

// The first thread ends by a bare exit call; the others, in the midst of malloc, go on.
TEST(LeaderAlone, IsNotTheEnd) {
    Fixture target("ender", {"leader_alone"});
    for (const bool before_attach : {false, true}) {
        Memleax memleax({"-F", "json", std::to_string(target.pid())});
        memleax.wait_until_watching();
        if (!before_attach) {
            target.process().send("10");
        }
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json().at("session").at("end_reason"), "user");
        for (const auto& [tid, thread] : take_snapshot(target.pid()).threads) {
            EXPECT_EQ(thread.tracer, 0);
        }
    }
    Memleax memleax({"-F", "json", std::to_string(target.pid())});
    memleax.wait_until_watching();
    target.process().signal(SIGKILL);
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.json().at("session").at("end_reason"), "target-exit");
}

} // namespace
} // namespace memleax::testing
