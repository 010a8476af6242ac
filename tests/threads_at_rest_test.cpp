// SPDX-License-Identifier: GPL-3.0-or-later
// Who rests, and who does not: a thread that sleeps, one that computes, one that is stopped.
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/engine/leave/held_hits.hpp"
#include "../src/engine/leave/threads_at_rest.hpp"
#include "memleax/target/target.hpp"

namespace memleax::testing {
namespace {

[[noreturn]] void compute() {
    for (volatile unsigned sum = 0;;) {
        sum = sum + 1;
    }
}

/// A process of ours, which is seized. A thread traces it, with whose end it is let go of.
class ThreadsAtRestTest : public ::testing::Test {
  protected:
    template <class Test> void trace(void (*body)(), const Test& test) {
        const pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
            body();
            _exit(0);
        }
        std::thread([&] {
            Tracer tracer(nullptr);
            auto target = Target::seize(tracer, Tid(pid));
            ASSERT_TRUE(target) << target.error().message();
            ThreadsAtRest threads(**target);
            EXPECT_FALSE(threads.all_rest()) << "nobody has looked";
            EXPECT_FALSE(threads.all_but_computing_rest());
            threads.begin();
            test(**target, threads);
        }).join();
        kill(pid, SIGKILL);
        EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    }

    /// It is for the test's time limit to end this.
    template <class Condition> static void look_until(ThreadsAtRest& threads, Condition is_so) {
        for (threads.look(); !is_so(threads); threads.look()) {
            poll(nullptr, 0, 1);
        }
    }
};

TEST_F(ThreadsAtRestTest, AThreadThatSleepsDoes) {
    trace([] { pause(); },
          [](Target& /*target*/, ThreadsAtRest& threads) {
              look_until(threads, [](const auto& each) { return each.all_rest(); });
              EXPECT_TRUE(threads.all_but_computing_rest());
              threads.begin();
              EXPECT_FALSE(threads.all_rest()) << "it has to be looked at anew";
          });
}

TEST_F(ThreadsAtRestTest, OneThatComputesDoesNotUntilItStops) {
    trace(compute, [](Target& target, ThreadsAtRest& threads) {
        look_until(threads, [](const auto& each) { return each.all_but_computing_rest(); });
        EXPECT_FALSE(threads.all_rest());
        target.interrupt(target.pid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        look_until(threads, [](const auto& each) { return each.all_rest(); });
        EXPECT_TRUE(threads.all_but_computing_rest());
    });
}

TEST_F(ThreadsAtRestTest, OneThatIsGoneIsNotWaitedFor) {
    trace(compute, [](Target& target, ThreadsAtRest& threads) {
        threads.look();
        EXPECT_FALSE(threads.all_rest());
        threads.on_thread_gone(target.pid());
        EXPECT_TRUE(threads.all_rest());
    });
}

// As at a stop that the agent asks for while we are about to leave: the thread was called at rest,
// went on, and kept leaving for 150 ms.
TEST_F(ThreadsAtRestTest, OneThatGoesOnIsWaitedForAgain) {
    trace(compute, [](Target& target, ThreadsAtRest& /*threads*/) {
        HeldHits held(target);
        held.begin();
        target.interrupt(target.pid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        held.look();
        held.after_stop(target.pid());
        EXPECT_TRUE(held.may_stay()) << "it stands still";
        target.resume(target.pid());
        held.after_stop(target.pid());
        EXPECT_FALSE(held.may_stay());
    });
}

TEST_F(ThreadsAtRestTest, TimeIsUpSomeTimeAfterTheFirstLookOnly) {
    trace(compute, [](Target& target, ThreadsAtRest& /*threads*/) {
        HeldHits held(target);
        held.begin();
        poll(nullptr, 0, 2 * kMostStandingNs / 1'000'000);
        EXPECT_FALSE(held.is_over()) << "nobody has looked, as there was so much to be read";
        held.look();
        poll(nullptr, 0, 2 * kMostStandingNs / 1'000'000);
        EXPECT_TRUE(held.is_over());
    });
}

} // namespace
} // namespace memleax::testing
