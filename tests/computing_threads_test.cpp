// SPDX-License-Identifier: GPL-3.0-or-later
// Which threads compute, by what they have executed since they last slept.
#include "memleax/proc/computing_threads.hpp"

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include <fcntl.h>
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

std::int64_t executed_ms(pthread_t thread) {
    clockid_t clock{};
    timespec now{};
    EXPECT_EQ(pthread_getcpuclockid(thread, &clock), 0);
    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

TEST(ComputingThreads, ComputesByItselfWhoSpendsTheUsersTime) {
    Spinner spinner;
    ComputingThreads computing;
    while (!computing.computes_by_itself(Tid(getpid()), spinner.tid())) {
        std::this_thread::yield();
    }
}

// As a transfer does that need not wait for its peer.
TEST(ComputingThreads, ComputesByItselfMuchLaterWhoIsInTheKernelAllTheTime) {
    std::atomic<int> tid{0};
    std::atomic<bool> end{false};
    std::thread reader([&] {
        std::vector<char> zeros(4 << 20);
        const int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        tid = own_tid().value();
        // Not read(), where ThreadSanitizer computes for each byte.
        while (!end && syscall(SYS_read, fd, zeros.data(), zeros.size()) > 0) {
        }
        close(fd);
    });
    while (tid == 0) {
        std::this_thread::yield();
    }
    ComputingThreads computing;
    const std::int64_t begun = executed_ms(reader.native_handle());
    while (!computing.computes_by_itself(Tid(getpid()), Tid(tid))) {
        std::this_thread::yield();
    }
    EXPECT_GE(executed_ms(reader.native_handle()) - begun, 150);
    EXPECT_TRUE(computing.computes(Tid(getpid()), Tid(tid)));
    end = true;
    reader.join();
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
