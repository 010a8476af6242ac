// SPDX-License-Identifier: GPL-3.0-or-later
// What a process may wait for in a transfer, as a child that has only these descriptors.
#include "memleax/proc/blocking_descriptors.hpp"

#include <array>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax {
namespace {

/// A child that has closed everything, opened what it is to have, and waits.
class Child {
  public:
    explicit Child(const std::function<bool()>& open_some) {
        std::array<int, 2> ready{};
        EXPECT_EQ(pipe(ready.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            constexpr int kWriter = 3;
            const bool alone = dup2(ready[1], kWriter) == kWriter &&
                               close_range(kWriter + 1, ~0U, 0) == 0 &&
                               close_range(0, kWriter - 1, 0) == 0;
            const char done = alone && open_some() ? 'y' : 'n';
            (void)!write(kWriter, &done, 1);
            for (;;) {
                pause();
            }
        }
        char done = 0;
        close(ready[1]);
        EXPECT_EQ(read(ready[0], &done, 1), 1);
        EXPECT_EQ(done, 'y');
        close(ready[0]);
    }
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] BlockingDescriptors descriptors() const { return BlockingDescriptors(Tid(pid_)); }

  private:
    pid_t pid_ = 0;
};

bool open_sockets(int flags) {
    std::array<int, 2> ends{};
    return socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends.data()) == 0;
}

TEST(BlockingDescriptors, APipeAndMemoryAreNotSlow) {
    const Child child(
        [] { return open("/dev/null", O_RDWR) >= 0 && open("/dev/zero", O_RDWR) >= 0; });
    auto descriptors = child.descriptors();
    EXPECT_FALSE(descriptors.any_socket());
    EXPECT_FALSE(descriptors.any_slow());
}

TEST(BlockingDescriptors, ASocketIs) {
    const Child child([] { return open_sockets(0); });
    auto descriptors = child.descriptors();
    EXPECT_TRUE(descriptors.any_socket());
    EXPECT_TRUE(descriptors.any_slow());
}

TEST(BlockingDescriptors, ASocketThatDoesNotWaitIsNot) {
    const Child child([] { return open_sockets(SOCK_NONBLOCK); });
    auto descriptors = child.descriptors();
    EXPECT_FALSE(descriptors.any_socket());
    EXPECT_FALSE(descriptors.any_slow());
}

TEST(BlockingDescriptors, ATerminalIs) {
    const Child child([] {
        int master = -1;
        int terminal = -1;
        return openpty(&master, &terminal, nullptr, nullptr, nullptr) == 0;
    });
    auto descriptors = child.descriptors();
    EXPECT_FALSE(descriptors.any_socket());
    EXPECT_TRUE(descriptors.any_slow());
}

TEST(BlockingDescriptors, OfNobodyNothingIsKnown) {
    BlockingDescriptors descriptors(Tid(1 << 30));
    EXPECT_TRUE(descriptors.any_socket());
    EXPECT_TRUE(descriptors.any_slow());
}

} // namespace
} // namespace memleax
