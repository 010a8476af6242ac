// SPDX-License-Identifier: GPL-3.0-or-later
// Which threads sleep again and again, and in no transfer.
#include "memleax/proc/restless_threads.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {
namespace {

Tid own_tid() {
    return Tid(static_cast<int>(syscall(SYS_gettid)));
}

void compute(int spins) {
    for (std::atomic<int> left = spins; left > 0; --left) {
    }
}

/// Why nobody can be seen to sleep elsewhere; empty if one can.
std::string why_not() {
    if (access("/proc/self/io", R_OK) != 0) {
        return "the kernel counts no calls like write(2)";
    }
    for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(descriptor.path(), gone)
                .native()
                .starts_with("socket:")) {
            return "the tests were started with a socket, which may wait";
        }
    }
    return "";
}

class Pipe {
  public:
    Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
    ~Pipe() {
        close(ends_[0]);
        close_writer();
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void close_writer() {
        if (ends_[1] >= 0) {
            close(ends_[1]);
            ends_[1] = -1;
        }
    }
    [[nodiscard]] int reader() const { return ends_[0]; }
    [[nodiscard]] int writer() const { return ends_[1]; }

  private:
    std::array<int, 2> ends_{};
};

/// Sleeps until its turn comes, computes for a moment, and gives the turn back.
class Partner {
  public:
    Partner() {
        EXPECT_EQ(sem_init(&its_turn_, 0, 0), 0);
        EXPECT_EQ(sem_init(&our_turn_, 0, 0), 0);
        thread_ = std::thread([this] { run(); });
        while (tid_ == 0) {
            std::this_thread::yield();
        }
    }
    ~Partner() {
        end_ = true;
        sem_post(&its_turn_);
        thread_.join();
        sem_destroy(&its_turn_);
        sem_destroy(&our_turn_);
    }
    Partner(const Partner&) = delete;
    Partner& operator=(const Partner&) = delete;

    [[nodiscard]] Tid tid() const { return Tid(tid_); }
    void take_turn() {
        sem_post(&its_turn_);
        sem_wait(&our_turn_);
    }

  private:
    void run() {
        constexpr int kSpins = 200'000; // a millisecond or so, for there to be ticks
        tid_ = own_tid().value();
        while (sem_wait(&its_turn_) == 0 && !end_) {
            compute(kSpins);
            sem_post(&our_turn_);
        }
    }

    // std::atomic and std::binary_semaphore yield where these sleep.
    sem_t its_turn_{};
    sem_t our_turn_{};
    std::atomic<int> tid_{0};
    std::atomic<bool> end_{false};
    std::thread thread_;
};

TEST(RestlessThreads, SleepsElsewhereWhoWaitsForOthers) {
    if (const std::string why = why_not(); !why.empty()) {
        GTEST_SKIP() << why;
    }
    Partner partner;
    BlockingDescriptors descriptors{Tid(getpid())};
    RestlessThreads restless(Tid(getpid()), descriptors);
    int turns = 1;
    for (; !restless.sleeps_elsewhere(partner.tid()); ++turns) {
        partner.take_turn();
    }
    EXPECT_GE(turns, 100);
    restless.forget(partner.tid());
    EXPECT_FALSE(restless.sleeps_elsewhere(partner.tid()));
}

// A send is not counted.
TEST(RestlessThreads, DoesNotSleepElsewhereWhereASocketWaits) {
    if (const std::string why = why_not(); !why.empty()) {
        GTEST_SKIP() << why;
    }
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets.data()), 0);
    Partner partner;
    BlockingDescriptors nonblocking{Tid(getpid())};
    RestlessThreads where_none_waits(Tid(getpid()), nonblocking);
    int turns = 0;
    for (; !where_none_waits.sleeps_elsewhere(partner.tid()); ++turns) {
        partner.take_turn();
    }
    EXPECT_EQ(fcntl(sockets[1], F_SETFL, 0), 0);
    BlockingDescriptors one_blocking{Tid(getpid())};
    RestlessThreads where_one_waits(Tid(getpid()), one_blocking);
    for (; turns > 0; --turns) {
        EXPECT_FALSE(where_one_waits.sleeps_elsewhere(partner.tid()));
        partner.take_turn();
    }
    close(sockets[0]);
    close(sockets[1]);
}

TEST(RestlessThreads, DoesNotSleepElsewhereWhoWrites) {
    Pipe to_it;
    Pipe back;
    std::atomic<int> tid{0};
    std::thread echo([&] {
        constexpr int kSpins = 10'000;
        tid = own_tid().value();
        char byte = 0;
        while (read(to_it.reader(), &byte, 1) == 1 && write(back.writer(), &byte, 1) == 1) {
            compute(kSpins);
        }
    });
    BlockingDescriptors descriptors{Tid(getpid())};
    RestlessThreads restless(Tid(getpid()), descriptors);
    constexpr int kRounds = 3000;
    for (int i = 0; i < kRounds && !testing::Test::HasFailure(); ++i) {
        char byte = 0;
        EXPECT_EQ(write(to_it.writer(), "x", 1), 1);
        EXPECT_EQ(read(back.reader(), &byte, 1), 1);
        EXPECT_FALSE(restless.sleeps_elsewhere(Tid(tid))) << i;
    }
    to_it.close_writer();
    echo.join();
}

// It ends no call, and computes nothing.
TEST(RestlessThreads, DoesNotSleepElsewhereWhoIsInOneTransfer) {
    constexpr std::size_t kBytes = 1 << 30;
    void* const zeros =
        mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(zeros, MAP_FAILED);
    Pipe pipe;
    std::atomic<int> tid{0};
    std::thread writer([&] {
        tid = own_tid().value();
        EXPECT_EQ(write(pipe.writer(), zeros, kBytes), static_cast<ssize_t>(kBytes));
    });
    BlockingDescriptors descriptors{Tid(getpid())};
    RestlessThreads restless(Tid(getpid()), descriptors);
    std::vector<char> part(1 << 16);
    constexpr int kReadsForALook = 8;
    int reads = 0;
    for (std::size_t left = kBytes - 1; left > 0;) {
        const ssize_t count = read(pipe.reader(), part.data(), std::min(left, part.size()));
        ASSERT_GT(count, 0);
        left -= static_cast<std::size_t>(count);
        if (tid != 0 && ++reads % kReadsForALook == 0) {
            EXPECT_FALSE(restless.sleeps_elsewhere(Tid(tid))) << left;
        }
    }
    EXPECT_EQ(read(pipe.reader(), part.data(), 1), 1);
    writer.join();
    munmap(zeros, kBytes);
}

TEST(RestlessThreads, DoesNotSleepElsewhereWhoIsGone) {
    BlockingDescriptors descriptors{Tid(getpid())};
    RestlessThreads restless(Tid(getpid()), descriptors);
    const Tid nobody(1 << 30);
    EXPECT_FALSE(restless.sleeps_elsewhere(nobody));
    EXPECT_FALSE(restless.sleeps_elsewhere(nobody));
}

} // namespace
} // namespace memleax
