// SPDX-License-Identifier: GPL-3.0-or-later
// Writing into another process's memory, which may end at any moment.
#include <array>
#include <cerrno>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/target/remote_memory.hpp"

namespace memleax::testing {
namespace {

std::array<std::uint8_t, 4> bytes{1, 2, 3, 4};

/// A copy of this process, which waits for the end of its input.
class Copy {
  public:
    Copy() {
        EXPECT_EQ(pipe(input_.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            close(input_[1]);
            char c = 0;
            _exit(read(input_[0], &c, 1) == 0 ? 0 : 1);
        }
        close(input_[0]);
    }
    void end() {
        close(input_[1]);
        EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    }
    [[nodiscard]] Tid pid() const { return Tid(pid_); }

  private:
    std::array<int, 2> input_{};
    pid_t pid_ = -1;
};

TEST(RemoteMemory, TellsTheEndOfTheProcessFromABadAddress) {
    Copy copy;
    auto memory = RemoteMemory::open(copy.pid());
    ASSERT_TRUE(memory) << memory.error().message();
    const RemoteAddr there(reinterpret_cast<std::uintptr_t>(bytes.data()));
    const std::array<std::uint8_t, 4> other{5, 6, 7, 8};
    EXPECT_TRUE(memory->write(there, other));
    std::array<std::byte, 4> now{};
    EXPECT_EQ(memory->try_read_unmasked(there, now), now.size());
    EXPECT_EQ(now[0], std::byte{5});
    const auto nowhere = memory->write(RemoteAddr(16), other);
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().errnum(), EIO);
    copy.end();
    const auto ended = memory->write(there, other);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().errnum(), ESRCH);
}

TEST(RemoteMemory, HidesWhatIsMaskedUntilAllOfItIsUnmasked) {
    Copy copy;
    auto memory = RemoteMemory::open(copy.pid());
    ASSERT_TRUE(memory) << memory.error().message();
    const RemoteAddr there(reinterpret_cast<std::uintptr_t>(bytes.data()));
    const std::array<std::uint8_t, 4> ours{5, 6, 7, 8};
    memory->mask(there, bytes);
    ASSERT_TRUE(memory->write(there, ours));
    using Bytes = std::array<std::uint8_t, 4>;
    EXPECT_EQ(memory->try_read_object<Bytes>(there), bytes);
    memory->unmask(there, ours.size());
    EXPECT_EQ(memory->try_read_object<Bytes>(there), ours);
}

} // namespace
} // namespace memleax::testing
