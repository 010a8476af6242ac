// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that sleeps is not stopped when its process is left, and may wake up at any moment of it
// and fork: also that child has nothing of ours.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "kill_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "program_support.hpp"
#include "share_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

char state_of(Tid tid) {
    const auto info = try_read_process_info(tid);
    return info ? info->state : 'X';
}

bool has_ended(pid_t pid) {
    const char state = state_of(Tid(pid));
    return state == 'Z' || state == 'X';
}

/// Until it is stopped by the signal; or it has ended before. For moments strace stops it, too:
/// some looks in a row tell them apart nearly always, and a fork that comes too early is a test as
/// well.
bool is_halted(pid_t memleax) {
    constexpr int kLooks = 4;
    for (int stopped = 0; stopped < kLooks; poll(nullptr, 0, 1)) {
        if (has_ended(memleax)) {
            return false;
        }
        const char state = state_of(Tid(memleax));
        stopped = state == 'T' || state == 't' ? stopped + 1 : 0;
    }
    return true;
}

/// The signal that stops it may come after this one.
void let_go_on_to_the_end(pid_t memleax) {
    for (; !has_ended(memleax); poll(nullptr, 0, 1)) {
        kill(memleax, SIGCONT);
    }
}

/// Its second thread has been told to fork: until it has, or cannot, as it is stopped itself.
void wait_for_fork(Fixture& fixture) {
    const Tid forker = list_threads(Tid(fixture.pid())).back();
    while (children_of(fixture.pid()).empty() && state_of(forker) != 't' &&
           !fixture.process().has_output()) {
        poll(nullptr, 0, 1);
    }
}

TEST(LateForks, AChildThatIsMadeWhileWeLeaveIsClean) {
    if (!has_program("strace")) {
        GTEST_SKIP() << "strace is not here";
    }
    constexpr int kMostCalls = 200;
    const int step = kMostCalls / share_of(kMostCalls);
    Fixture fixture("late_forker");
    for (int call = 1; call <= kMostCalls; call += step) {
        Memleax memleax({"-q", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        bool halted = false;
        {
            const SignalAtPtraceCall halt(memleax, call, "SIGSTOP");
            memleax.interrupt();
            halted = is_halted(memleax.process().pid());
            if (halted) {
                fixture.process().send("go");
                wait_for_fork(fixture);
                let_go_on_to_the_end(memleax.process().pid());
            }
            const auto result = memleax.finish();
            EXPECT_EQ(result.status, 0) << result.errors;
        }
        if (!halted) {
            EXPECT_GT(call, 1);
            break; // it makes no more calls than that
        }
        EXPECT_THAT(read_answer(fixture.process()).failures, IsEmpty())
            << "at ptrace call " << call;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
