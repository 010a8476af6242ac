// SPDX-License-Identifier: GPL-3.0-or-later
// Which processes have the memory of another one for theirs.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter_support.hpp"
#include "forked_test_support.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// Its first thread ends; the other one lives on.
[[noreturn]] void be_leaderless() {
    pthread_t thread{};
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
            for (;;) {
                pause();
            }
        },
        nullptr);
    syscall(SYS_exit, 0);
    abort();
}

// The kernel calls two the same that have no memory: of one that has ended, and of a first thread
// that has.
TEST(ProcessesSharingMemory, AreNoStrangersWhoseFirstThreadHasEnded) {
    const pid_t leaderless = fork();
    if (leaderless == 0) {
        be_leaderless();
    }
    const pid_t ended = fork();
    if (ended == 0) {
        _exit(0);
    }
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(ended), &info, WEXITED | WNOWAIT), 0);
    for (bool has_ended = false; !has_ended;) {
        const auto first = try_read_process_info(Tid(leaderless));
        ASSERT_TRUE(first);
        has_ended = first->has_ended();
    }
    EXPECT_THAT(processes_sharing_memory(Tid(ended)), Not(Contains(Tid(leaderless))));
    kill(leaderless, SIGKILL);
    EXPECT_EQ(waitpid(leaderless, nullptr, 0), leaderless);
    EXPECT_EQ(waitpid(ended, nullptr, 0), ended);
}

/// What is logged of a process whose memory we may not look at.
std::string log_of_a_look_at(Tid stranger) {
    const int log = memfd_create("log", MFD_CLOEXEC);
    set_log_fd(log);
    EXPECT_FALSE(shares_memory(Tid(getpid()), stranger));
    set_log_fd(STDERR_FILENO);
    std::array<char, 4096> text{};
    const ssize_t size = pread(log, text.data(), text.size(), 0);
    close(log);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// As a child's that has executed a program with privileges.
TEST(SharesMemory, AStrangersMemoryIsNoLackOfTheKernels) {
    const Tid of_others(getpid());
    EXPECT_TRUE(in_child([of_others] {
        if (getuid() == 0) {
            ASSERT_EQ(setuid(65534), 0);
        }
        const Tid stranger = getuid() == 65534 ? of_others : Tid(1);
        ASSERT_LT(syscall(SYS_kcmp, getpid(), stranger.value(), KCMP_VM, 0, 0), 0);
        ASSERT_EQ(errno, EPERM);
        EXPECT_EQ(log_of_a_look_at(stranger), "");
    }));
}

TEST(SharesMemory, ItIsToldWhereTheKernelCannotCompare) {
    EXPECT_TRUE(in_child([] {
        if (!forbid_kcmp()) {
            GTEST_SKIP() << "no filters";
        }
        EXPECT_THAT(log_of_a_look_at(Tid(getppid())), HasSubstr("kcmp is not available"));
    }));
}

} // namespace
} // namespace memleax::testing
