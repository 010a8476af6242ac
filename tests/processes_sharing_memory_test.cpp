// SPDX-License-Identifier: GPL-3.0-or-later
// Which processes have the memory of another one for theirs.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {
namespace {

using ::testing::Contains;
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

} // namespace
} // namespace memleax::testing
