// SPDX-License-Identifier: GPL-3.0-or-later
// Children that run, sleep, and are stopped by a tracer: this test.
#include "memleax/proc/stopped_share.hpp"

#include <array>
#include <csignal>
#include <utility>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/report/stopped_text.hpp"
#include "memleax/session/stop_sampler.hpp"

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

TEST(StoppedShare, OfSeveralLooksIsThatOfAll) {
    StopSamples sum;
    EXPECT_EQ(sum.share(), std::nullopt);
    sum += {.running = 6, .stopped = 0};
    sum += {.running = 0, .stopped = 0}; // all slept: it tells nothing
    sum += {.running = 1, .stopped = 1};
    EXPECT_EQ(sum.all(), 8U);
    EXPECT_EQ(sum.share(), 0.125);
    EXPECT_EQ(stopped_text(sum), "for memleax at 1 of 8 looks at which its threads would have run: "
                                 "too few to tell a share of the time");
    sum += {.running = 7, .stopped = 1};
    EXPECT_EQ(stopped_text(sum), "for memleax: 12.5% of the time in which its threads would have "
                                 "run (2 of 16 looks)");
}

/// Running and stopped.
using Seen = std::pair<std::uint64_t, std::uint64_t>;

/// Of a session with one process that computes, and one that is stopped for us.
struct StopSamplerTest : testing::Test {
    StopSamplerTest() {
        EXPECT_EQ(ptrace(PTRACE_SEIZE, stopped.pid(), nullptr, nullptr), 0);
        EXPECT_EQ(ptrace(PTRACE_INTERRUPT, stopped.pid(), nullptr, nullptr), 0);
        EXPECT_EQ(waitpid(stopped.pid(), nullptr, __WALL), stopped.pid());
        for (ProcessAccount* each : {&running_account, &stopped_account}) {
            each->on_watching(1);
        }
    }
    /// Of both.
    [[nodiscard]] Seen seen() const {
        EXPECT_EQ(running_account.stops().stopped, 0U);
        EXPECT_EQ(stopped_account.stops().running, 0U);
        return {running_account.stops().running, stopped_account.stops().stopped};
    }

    const Child running{true};
    const Child stopped{true};
    ProcessAccounts accounts{{.memory_block_max = 0, .call_stack_max = 0}, ""};
    ProcessAccount& running_account = accounts.add(Tid(running.pid()), Tid(0));
    ProcessAccount& stopped_account = accounts.add(Tid(stopped.pid()), Tid(0));
    StopSampler sampler{accounts};
};

TEST_F(StopSamplerTest, LooksWhenItIsTime) {
    constexpr std::int64_t kBegin = 1'000;
    sampler.sample(MonotonicNs(kBegin));
    EXPECT_EQ(seen(), Seen(1, 1));
    EXPECT_GE(sampler.due().value(), kBegin + 20'000'000);
    sampler.sample(MonotonicNs(sampler.due().value() - 1));
    EXPECT_EQ(seen(), Seen(1, 1));
    sampler.sample(sampler.due());
    EXPECT_EQ(seen(), Seen(2, 2));
}

TEST_F(StopSamplerTest, NotAtOneThatSomebodyElseHasStoppedOrThatHasEnded) {
    stopped_account.on_stopped(true);
    sampler.sample(sampler.due());
    EXPECT_EQ(seen(), Seen(1, 0));
    stopped_account.on_stopped(false);
    running_account.on_ended(0);
    sampler.sample(sampler.due());
    EXPECT_EQ(seen(), Seen(1, 1));
}

} // namespace
} // namespace memleax
