// SPDX-License-Identifier: GPL-3.0-or-later
// Under ThreadSanitizer (the preset "tsan") a lock that does not order what is done under it is
// reported.
#include "memleax/base/abandonable_mutex.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {
namespace {

/// Until the thread that stores its id in `tid` sleeps in a futex.
void wait_for_futex(const std::atomic<int>& tid) {
    const auto sleeps = [&tid] {
        const auto state = try_read_kernel_state(Tid(getpid()), Tid(tid));
        return state && state->system_call == SYS_futex;
    };
    while (tid == 0 || !sleeps()) {
        std::this_thread::yield();
    }
}

TEST(AbandonableMutex, OneAtATime) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 20'000;
    AbandonableMutex mutex;
    const std::atomic<bool> abandoned{false};
    int holders = 0;
    int total = 0;
    const auto work = [&] {
        for (int i = 0; i < kRounds; ++i) {
            ASSERT_TRUE(mutex.lock_unless(abandoned));
            const std::lock_guard lock(mutex, std::adopt_lock);
            ASSERT_EQ(++holders, 1);
            ++total;
            --holders;
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(work);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(total, kThreads * kRounds);
}

TEST(AbandonableMutex, WhoGivesUpLeavesItToTheHolder) {
    AbandonableMutex mutex;
    std::atomic<bool> abandoned{true};
    EXPECT_TRUE(mutex.lock_unless(abandoned)); // nobody has it
    std::thread([&] { EXPECT_FALSE(mutex.lock_unless(abandoned)); }).join();
    mutex.unlock();
    std::thread([&] {
        const std::lock_guard lock(mutex);
        EXPECT_FALSE(mutex.lock_unless(abandoned));
    }).join();
    EXPECT_TRUE(mutex.lock_unless(abandoned));
    mutex.unlock();
}

// The flag is set while somebody sleeps, and nobody wakes it.
TEST(AbandonableMutex, WhoSleepsLooksUpByItself) {
    AbandonableMutex mutex;
    std::atomic<bool> abandoned{false};
    std::atomic<bool> gave_up{false};
    std::atomic<int> tid{0};
    mutex.lock();
    std::thread waiter([&] {
        tid = static_cast<int>(syscall(SYS_gettid));
        gave_up = !mutex.lock_unless(abandoned);
    });
    wait_for_futex(tid);
    EXPECT_FALSE(gave_up);
    abandoned = true;
    waiter.join();
    EXPECT_TRUE(gave_up);
    mutex.unlock();
}

// As the main thread does that copies the account piece by piece, while the tracer has events for
// it.
TEST(AbandonableMutex, WhoLocksInALoopGivesWay) {
    constexpr int kRounds = 100;
    AbandonableMutex mutex;
    const std::atomic<bool> abandoned{false};
    for (int i = 0; i < kRounds; ++i) {
        bool had = false;
        std::atomic<int> tid{0};
        mutex.lock();
        std::thread waiter([&] {
            tid = static_cast<int>(syscall(SYS_gettid));
            ASSERT_TRUE(mutex.lock_unless(abandoned));
            had = true;
            mutex.unlock();
        });
        wait_for_futex(tid);
        mutex.unlock();
        mutex.lock();
        EXPECT_TRUE(had);
        mutex.unlock();
        waiter.join();
    }
}

} // namespace
} // namespace memleax
