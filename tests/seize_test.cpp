// SPDX-License-Identifier: GPL-3.0-or-later
// A process that has been killed is there for a while, without its memory, and refuses to be
// traced: it is said to be gone, and nobody is told to get privileges.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Its memory takes the kernel some ten milliseconds to take apart.
[[noreturn]] void have_much_memory() {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    std::memset(memory, 1, kBytes);
    raise(SIGSTOP);
    for (;;) {
        pause();
    }
}

TEST(Seize, AProcessThatIsOnItsWayOutIsSaidToBeGone) {
    if (std::thread::hardware_concurrency() == 1) {
        GTEST_SKIP() << "it is gone before the only CPU is ours again";
    }
    const pid_t pid = fork();
    if (pid == 0) {
        have_much_memory();
    }
    ASSERT_EQ(waitpid(pid, nullptr, WUNTRACED), pid);
    kill(pid, SIGKILL);
    int looks = 0;
    for (std::optional<ProcessInfo> info;
         (info = try_read_process_info(Tid(pid))) && !info->has_ended();) {
        if (info->is_exiting) { // else it would be traced, which is another case
            EXPECT_THAT(explain_seize_failure(Tid(pid), EPERM).message(),
                        HasSubstr("no such process"));
            ++looks;
        }
    }
    EXPECT_GT(looks, 0);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

// Its first thread has ended, and it lives.
TEST(Seize, AProcessWithoutItsFirstThreadIsNotSaidToBeGone) {
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::thread([] { pause(); }).detach();
        syscall(SYS_exit, 0); // of this thread
    }
    for (std::optional<ProcessInfo> info;
         (info = try_read_process_info(Tid(pid))) && !info->has_ended();) {
        poll(nullptr, 0, 1);
    }
    EXPECT_THAT(explain_seize_failure(Tid(pid), EPERM).message(),
                Not(HasSubstr("no such process")));
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

} // namespace
} // namespace memleax::testing
