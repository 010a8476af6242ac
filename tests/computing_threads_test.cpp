// SPDX-License-Identifier: GPL-3.0-or-later
// Which threads compute, by what they have executed since they last slept.
#include "memleax/proc/computing_threads.hpp"

#include <atomic>
#include <ctime>
#include <thread>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {
namespace {

Tid own_tid() {
    return Tid(static_cast<int>(syscall(SYS_gettid)));
}

class Spinner {
  public:
    Spinner() {
        while (tid_ == 0) {
            std::this_thread::yield();
        }
    }
    ~Spinner() {
        end_ = true;
        thread_.join();
    }
    Spinner(const Spinner&) = delete;
    Spinner& operator=(const Spinner&) = delete;

    [[nodiscard]] Tid tid() const { return Tid(tid_); }
    [[nodiscard]] pthread_t handle() { return thread_.native_handle(); }

  private:
    std::atomic<int> tid_{0};
    std::atomic<bool> end_{false};
    std::thread thread_{[this] {
        tid_ = own_tid().value();
        while (!end_) {
        }
    }};
};

TEST(ComputingThreads, ComputesWhoNeverSleeps) {
    Spinner spinner;
    ComputingThreads computing;
    EXPECT_FALSE(computing.computes(Tid(getpid()), spinner.tid())); // nothing is known yet
    while (!computing.computes(Tid(getpid()), spinner.tid())) {
        std::this_thread::yield();
    }
}

TEST(ComputingThreads, ComputesLaterWhoWasInATransfer) {
    Spinner spinner;
    clockid_t clock{};
    ASSERT_EQ(pthread_getcpuclockid(spinner.handle(), &clock), 0);
    const auto executed_ms = [clock] {
        timespec now{};
        clock_gettime(clock, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
    };
    const auto begun = executed_ms();
    ComputingThreads computing;
    computing.note_transfer(spinner.tid());
    while (!computing.computes(Tid(getpid()), spinner.tid())) {
        std::this_thread::yield();
    }
    EXPECT_GE(executed_ms() - begun, 150);
    computing.note_elsewhere(spinner.tid());
    EXPECT_TRUE(computing.computes(Tid(getpid()), spinner.tid()));
}

// However much it has executed in all.
TEST(ComputingThreads, DoesNotComputeWhoSleepsNowAndThen) {
    int to_it[2];
    int back[2];
    ASSERT_EQ(pipe(to_it), 0);
    ASSERT_EQ(pipe(back), 0);
    std::atomic<int> tid{0};
    std::thread echo([&] {
        tid = own_tid().value();
        char byte = 0;
        while (read(to_it[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {
        }
    });
    ComputingThreads computing;
    constexpr int kRounds = 3000;
    for (int i = 0; i < kRounds && !HasFailure(); ++i) {
        char byte = 0;
        ASSERT_EQ(write(to_it[1], "x", 1), 1);
        ASSERT_EQ(read(back[0], &byte, 1), 1);
        EXPECT_FALSE(computing.computes(Tid(getpid()), Tid(tid))) << i;
    }
    close(to_it[1]);
    echo.join();
    for (const int fd : {to_it[0], back[0], back[1]}) {
        close(fd);
    }
}

TEST(ComputingThreads, DoesNotComputeWhoIsGone) {
    ComputingThreads computing;
    const Tid nobody(1 << 30);
    EXPECT_FALSE(computing.computes(nobody, nobody));
    EXPECT_FALSE(computing.computes(nobody, nobody));
}

} // namespace
} // namespace memleax
