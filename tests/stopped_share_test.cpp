// SPDX-License-Identifier: GPL-3.0-or-later
// Children that run, sleep, and are stopped by a tracer: this test.
#include "memleax/proc/stopped_share.hpp"

#include <array>
#include <csignal>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax {
namespace {

/// A child that computes, or reads what does not come. Killed at the end.
class Child {
  public:
    explicit Child(bool computes) {
        std::array<int, 2> never{};
        EXPECT_EQ(pipe(never.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            for (volatile bool on = computes; on;) {
            }
            char byte = 0;
            _exit(static_cast<int>(read(never[0], &byte, 1)));
        }
        close(never[0]);
        end_ = never[1];
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(end_);
    }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] StopSamples look() const { return sample_stops(Tid(pid_), 0); }

  private:
    pid_t pid_ = 0;
    int end_ = -1;
};

TEST(StoppedShare, OfOneThatRunsIsNone) {
    const Child child(true);
    EXPECT_EQ(child.look().share(), 0);
}

TEST(StoppedShare, OfOneThatSleepsIsNotKnown) {
    const Child child(false);
    while (child.look().running > 0) { // on its way to the read
    }
    EXPECT_EQ(child.look().share(), std::nullopt);
}

TEST(StoppedShare, OfOneThatIsStoppedIsAll) {
    const Child child(true);
    ASSERT_EQ(ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(child.pid(), nullptr, __WALL), child.pid());
    EXPECT_EQ(child.look().share(), 1);
}

TEST(StoppedShare, OfOneThatIsGoneIsNotKnown) {
    EXPECT_EQ(sample_stops(Tid(0x7fffffff), 0).share(), std::nullopt);
}

TEST(StoppedShare, IsWhatWasStoppedOfAllThatWouldRun) {
    EXPECT_EQ((StopSamples{.running = 3, .stopped = 1}.share()), 0.25);
}

} // namespace
} // namespace memleax
