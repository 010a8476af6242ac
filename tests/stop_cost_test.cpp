// SPDX-License-Identifier: GPL-3.0-or-later
// What a stop would cost a thread, of threads of our own that nobody stops; and which of several is
// borrowed.
#include "../src/target/stop_cost.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../src/target/borrow_candidate.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {
namespace {

using ::testing::ElementsAre;

Tid own_pid() {
    return Tid(getpid());
}

/// The cost for a thread as soon as it is asleep in the call that `work` makes.
template <typename Work, typename Wake> StopCost cost_in(const Work& work, const Wake& wake) {
    std::atomic<int> tid{0};
    std::thread thread([&] {
        tid.store(static_cast<int>(syscall(SYS_gettid)));
        tid.notify_one();
        work();
    });
    tid.wait(0);
    for (;;) {
        const auto kernel = try_read_kernel_state(own_pid(), Tid(tid.load()));
        if (kernel && kernel->state == 'S' && kernel->system_call &&
            *kernel->system_call != SYS_futex) {
            break;
        }
        std::this_thread::yield();
    }
    auto memory = RemoteMemory::open(own_pid());
    const StopCost cost = memory ? stop_cost(own_pid(), Tid(tid.load()), *memory) : StopCost::gone;
    wake();
    thread.join();
    return cost;
}

class StopCostTest : public ::testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(pipe(pipe_.data()), 0); }
    void TearDown() override {
        close(pipe_[0]);
        close(pipe_[1]);
    }
    [[nodiscard]] int end(std::size_t n) const { return pipe_.at(n); }

  private:
    std::array<int, 2> pipe_{};
};

TEST_F(StopCostTest, IsNothingForOneThatWaitsForAByte) {
    char byte = 0;
    EXPECT_EQ(cost_in([&] { EXPECT_EQ(read(end(0), &byte, 1), 1); },
                      [&] { EXPECT_EQ(write(end(1), "x", 1), 1); }),
              StopCost::nothing);
}

TEST_F(StopCostTest, IsTheRestForOneThatWritesMoreThanAPipeTakes) {
    const std::vector<char> bytes(std::size_t{2} << 20U); // it takes 16 pages, of up to 64 KiB
    EXPECT_EQ(cost_in(
                  [&] {
                      EXPECT_EQ(write(end(1), bytes.data(), bytes.size()),
                                static_cast<ssize_t>(bytes.size()));
                  },
                  [&] {
                      std::vector<char> all(bytes.size());
                      for (std::size_t got = 0; got < all.size();) {
                          const ssize_t part = read(end(0), all.data(), all.size());
                          ASSERT_GT(part, 0);
                          got += static_cast<std::size_t>(part);
                      }
                  }),
              StopCost::cut_short);
}

TEST_F(StopCostTest, OneThatHasEndedIsGone) {
    std::atomic<int> tid{0};
    std::thread([&] { tid.store(static_cast<int>(syscall(SYS_gettid))); }).join();
    // join() is over before the kernel has let go of it (kernel/fork.c, mm_release).
    while (syscall(SYS_tgkill, getpid(), tid.load(), 0) == 0) {
        std::this_thread::yield();
    }
    auto memory = RemoteMemory::open(own_pid());
    ASSERT_TRUE(memory);
    EXPECT_EQ(stop_cost(own_pid(), Tid(tid.load()), *memory), StopCost::gone);
}

TEST(BorrowCandidateTest, WhoMindsLeastComesFirst) {
    const auto sorted = [](std::vector<BorrowCandidate> candidates) {
        std::sort(candidates.begin(), candidates.end());
        std::vector<int> tids;
        for (const BorrowCandidate& each : candidates) {
            tids.push_back(each.tid.value());
        }
        return tids;
    };
    EXPECT_THAT(sorted({{false, false, StopCost::cut_short, Tid(1)},
                        {false, false, StopCost::runs, Tid(2)},
                        {false, false, StopCost::nothing, Tid(3)},
                        {false, true, StopCost::nothing, Tid(4)},
                        {true, true, StopCost::nothing, Tid(5)}}),
                ElementsAre(4, 3, 2, 1, 5))
        << "a stopped one first; one with a filter that we may not suspend last of all";
    EXPECT_THAT(sorted({{false, false, StopCost::uninterruptible, Tid(1)},
                        {false, false, StopCost::may_fail, Tid(2)},
                        {false, false, StopCost::limit_anew, Tid(3)},
                        {false, false, StopCost::begins_again, Tid(4)}}),
                ElementsAre(4, 3, 2, 1));
    EXPECT_THAT(
        sorted({{false, false, StopCost::runs, Tid(8)}, {false, false, StopCost::runs, Tid(7)}}),
        ElementsAre(7, 8))
        << "of two that are the same, always the same";
}

} // namespace
} // namespace memleax
