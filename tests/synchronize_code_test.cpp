// SPDX-License-Identifier: GPL-3.0-or-later
// Threads of ours that visit each CPU, and what they leave of our own thread's priority.
#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/thread_priority.hpp"
#include "memleax/target/code_barrier.hpp"
#include "memleax/target/code_patch.hpp"

namespace memleax {
namespace {

bool may_run_before_others() {
    const BeforeOthers before_others;
    return runs_before_others();
}

std::ptrdiff_t own_threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    return set;
}

/// Keeps a CPU to itself for as long as it lives: visitors have no more than its priority.
class GreedyThread {
  public:
    explicit GreedyThread(int cpu)
        : thread_([this, cpu] {
              const cpu_set_t one = only(cpu);
              const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
              is_greedy_ = sched_setaffinity(0, sizeof one, &one) == 0 &&
                           sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
              is_there_ = true;
              while (is_greedy_ && !is_to_end_) {
              }
          }) {
        while (!is_there_) {
            sched_yield();
        }
    }
    ~GreedyThread() {
        is_to_end_ = true;
        thread_.join();
    }
    GreedyThread(const GreedyThread&) = delete;
    GreedyThread& operator=(const GreedyThread&) = delete;
    [[nodiscard]] bool is_greedy() const { return is_greedy_; }

  private:
    std::atomic<bool> is_there_ = false;
    std::atomic<bool> is_greedy_ = false;
    std::atomic<bool> is_to_end_ = false;
    std::thread thread_;
};

/// The CPUs of this thread, which has only the first of them meanwhile.
class OneCpu {
  public:
    OneCpu() {
        sched_getaffinity(0, sizeof all_, &all_);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(static_cast<std::size_t>(cpu), &all_)) {
                cpus.push_back(cpu);
            }
        }
        const cpu_set_t first = only(cpus.front());
        sched_setaffinity(0, sizeof first, &first);
    }
    ~OneCpu() { sched_setaffinity(0, sizeof all_, &all_); }
    OneCpu(const OneCpu&) = delete;
    OneCpu& operator=(const OneCpu&) = delete;
    std::vector<int> cpus;

  private:
    cpu_set_t all_{};
};

TEST(VisitAllCpus, LeavesPriorityAffinityAndNoThreads) {
    const OneCpu one;
    const int policy = sched_getscheduler(0);
    const auto threads = own_threads();
    const bool visited = visit_all_cpus();
    EXPECT_TRUE(!visited || may_run_before_others());
    EXPECT_EQ(sched_getscheduler(0), policy);
    EXPECT_EQ(own_threads(), threads);
    cpu_set_t now;
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
}

TEST(VisitAllCpus, GivesUpACpuThatSomebodyKeeps) {
    const OneCpu one;
    if (one.cpus.size() < 2 || !may_run_before_others()) {
        GTEST_SKIP() << "needs two CPUs and SCHED_FIFO";
    }
    const auto threads = own_threads();
    CodeBarrier barrier;
    {
        const GreedyThread greedy(one.cpus.back());
        ASSERT_TRUE(greedy.is_greedy());
        EXPECT_FALSE(visit_all_cpus());
        EXPECT_EQ(own_threads(), threads + 1);
        EXPECT_FALSE(barrier.pass_at_once());
    }
    // Stops wait meanwhile: not once more.
    EXPECT_FALSE(barrier.pass_at_once());
    EXPECT_TRUE(barrier.is_over());
    EXPECT_TRUE(synchronize_code());
}

// As for a user whom RLIMIT_RTPRIO lets run before others: he may not take SCHED_RESET_ON_FORK
// back.
TEST(ThreadPriority, IsAsUsualAgainWithoutPrivilege) {
    if (geteuid() != 0 || !may_run_before_others()) {
        GTEST_SKIP() << "needs root, and SCHED_RR";
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        constexpr uid_t kNobody = 65534;
        run_before_others();
        const bool did = runs_before_others() && setuid(kNobody) == 0;
        run_as_usual();
        const int policy = sched_getscheduler(0);
        run_before_others(); // may be in vain
        run_as_usual();
        _exit(did && policy == (SCHED_OTHER | SCHED_RESET_ON_FORK) &&
                      sched_getscheduler(0) == policy
                  ? 0
                  : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace memleax
