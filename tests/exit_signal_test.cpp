// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/exit_signal.hpp"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ExitSignal, IsTheThirtyEighthFieldWhateverTheNameIs) {
    const std::string rest = " Z 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 "
                             "27 28 29 30 31 32 33 34 35 36 37 77 39\n";
    EXPECT_EQ(parse_exit_signal("12 (a) b) 1 (c)" + rest), 77);
    EXPECT_EQ(parse_exit_signal("12 (name) R 1 2 3\n"), std::nullopt);
    EXPECT_EQ(parse_exit_signal(""), std::nullopt);
}

TEST(ExitSignal, TellsChildrenOfOneKindAlsoWhenTheyHaveEnded) {
    constexpr int kNoSignal = 77; // none that there is
    const auto make = [](int signal) {
        const long child = syscall(SYS_clone, signal, 0, 0, 0, 0);
        if (child == 0) {
            syscall(SYS_exit_group, 0);
        }
        siginfo_t info{};
        waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT | __WALL);
        return static_cast<pid_t>(child);
    };
    const Tid self(getpid());
    EXPECT_THAT(children_with_exit_signal(self, kNoSignal), IsEmpty());
    const pid_t wanted = make(kNoSignal);
    const pid_t other = make(SIGCHLD);
    EXPECT_THAT(children_with_exit_signal(self, kNoSignal), ElementsAre(Tid(wanted)));
    EXPECT_THAT(children_with_exit_signal(self, SIGCHLD), Contains(Tid(other)));
    EXPECT_THAT(children_with_exit_signal(Tid(wanted), kNoSignal), IsEmpty());
    EXPECT_EQ(waitpid(-1, nullptr, 0), other) << "a wait sees only those of its kind";
    EXPECT_EQ(waitpid(wanted, nullptr, __WALL), wanted);
}

} // namespace
} // namespace memleax
