// SPDX-License-Identifier: GPL-3.0-or-later
// A process whose only thread sleeps in a system call: it is the one that is borrowed when memleax
// comes and when it goes, and the call must not end because of that.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "arch.hpp"
#include "leaks_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

/// The fixture skips a call that the kernel refuses (io_uring_disabled, for example).
class Sleeper : public ::testing::TestWithParam<const char*> {};

/// Does a signal that the target ignores end this call, because a traced thread wakes up for it?
/// The kernel does not begin it again (signal(7)), and we can only where the registers still have
/// its first argument (man page, WHAT THE TARGET MAY NOTICE).
bool ends_by_ignored_signals(const std::string& call) {
    static const std::set<std::string> kEndWithEintr{"read_socket",     "recv",
                                                     "accept_limit",    "epoll_wait",
                                                     "epoll_wait_long", "epoll_pwait",
                                                     "epoll_pwait2",    "epoll_wait_handler",
                                                     "semop",           "semtimedop",
                                                     "sigwaitinfo",     "sigtimedwait",
                                                     "io_getevents",    "io_pgetevents",
                                                     "readv_limit",     "recvmsg_limit",
                                                     "recvmmsg_limit",  "write_limit",
                                                     "send_limit",      "connect_limit",
                                                     "io_uring",        "io_uring_sqpoll",
                                                     "io_uring_worker"};
    return arch::kResultReplacesArgument && kEndWithEintr.contains(call);
}

TEST_P(Sleeper, SleepsOnWhileSomebodyComesAndGoes) {
    ChildProcess fixture({fixture_path("sleeper"), GetParam()});
    const std::string first = fixture.read_line().value_or("(the end)");
    if (first.starts_with("skip")) {
        GTEST_SKIP() << first;
    }
    ASSERT_EQ(first, "ready");
    const auto ask = [&](const char* command) {
        fixture.send(command);
        return read_answer(fixture);
    };
    // One that sleeps in sigwaitinfo gets a CPU late, on a busy machine, to do so again.
    const std::string_view call = GetParam();
    const bool unblocks = call == "sigwaitinfo" || call == "sigtimedwait";
    const auto snapshot = [&] {
        return unblocks ? take_snapshot_unblocked(fixture.pid(), SIGUSR2)
                        : take_snapshot(fixture.pid());
    };
    const TargetSnapshot before = snapshot();
    for (int visit = 1; visit <= 4; ++visit) {
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        if (!ends_by_ignored_signals(GetParam())) {
            EXPECT_THAT(ask("annoy").failures, IsEmpty());
        }
        FixtureAnswer answer;
        if (visit % 2 == 0) { // else it sleeps from before we come until after we have gone
            answer = ask("go");
            answer.truth["block_after_sleep"] = {1, 77};
        }
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        EXPECT_THAT(differences(before, snapshot(), Meanwhile::worked), IsEmpty());
    }
    EXPECT_THAT(ask("annoy").failures, IsEmpty());
    EXPECT_THAT(ask("go").failures, IsEmpty());
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

// The calls of signal(7), "Interruption of system calls and library functions by signal handlers"
// and "... by stop signals", and of restart_syscall(2), as far as they sleep before they have done
// anything; transfers_test.cpp has those that are half way. Left out: ioctl(2) of slow devices, of
// which there is none that every machine has; getrandom(2), which sleeps only while the kernel
// starts; what the C library makes of another one here (wait, waitpid, wait3, usleep, send, recv,
// pthread_mutex_lock, pthread_cond_wait, sem_wait: two of the last stand for all).
INSTANTIATE_TEST_SUITE_P(
    Calls, Sleeper,
    ::testing::Values(
        // Begun again also when a handler has asked for it (SA_RESTART).
        "read", "read_pipe", "readv", "write", "write_page", "writev", "open", "wait4", "waitid",
        "accept", "connect", "recv", "recvmsg", "recvmmsg", "send", "flock", "setlkw", "ofd_setlkw",
        "mq_receive", "mq_timedreceive", "mq_send", "mq_timedsend", "futex", "futex_bitset",
        "sem_wait", "sem_timedwait", "inotify", "splice", "tee", "vmsplice",
        // Never begun again after a handler; some not even after a stop.
        "read_socket", "accept_limit", "connect_limit", "readv_limit", "recvmsg_limit",
        "recvmmsg_limit", "write_limit", "send_limit", "pause", "sigsuspend", "sigtimedwait",
        "sigwaitinfo", "epoll_wait", "epoll_wait_long", "epoll_pwait", "epoll_pwait2",
        "epoll_wait_handler", "poll", "ppoll", "select", "pselect", "msgrcv", "msgsnd", "semop",
        "semtimedop", "nanosleep", "old_nanosleep", "absolute_nanosleep", "io_getevents",
        "io_pgetevents", "io_uring", "io_uring_sqpoll", "io_uring_worker"),
    [](const auto& instance) { return std::string(instance.param); });

// What the kernel continues by restart_syscall(2), which a filter may forbid.
class SleeperWithAFilter : public ::testing::TestWithParam<const char*> {};

TEST_P(SleeperWithAFilter, IsNotContinuedByAnotherCall) {
    if (arch::kResultReplacesArgument) {
        GTEST_SKIP() << "not on this CPU";
    }
    if (geteuid() != 0) {
        GTEST_SKIP() << "its filter can be suspended by root only";
    }
    ChildProcess fixture({fixture_path("sleeper"), GetParam(), "filtered"});
    const std::string first = fixture.read_line().value_or("(the end)");
    if (first.starts_with("skip")) {
        GTEST_SKIP() << first;
    }
    ASSERT_EQ(first, "ready");
    const auto ask = [&](const char* command) {
        fixture.send(command);
        return read_answer(fixture);
    };
    for (int visit = 1; visit <= 4; ++visit) {
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        EXPECT_THAT(ask("annoy").failures, IsEmpty());
        if (visit % 2 == 0) {
            EXPECT_THAT(ask("go").failures, IsEmpty());
        }
        EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    }
    EXPECT_THAT(ask("go").failures, IsEmpty());
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

INSTANTIATE_TEST_SUITE_P(Calls, SleeperWithAFilter, ::testing::Values("poll", "nanosleep", "futex"),
                         [](const auto& instance) { return std::string(instance.param); });

// It sleeps until its handler runs. That the thread is just being made to begin its call again,
// when the signal comes, must not make it sleep on.
TEST(SleeperWithAHandler, IsWokenWhateverMomentWeComeAt) {
    ChildProcess fixture({fixture_path("sleeper"), "epoll_wait_handler"});
    ASSERT_EQ(fixture.read_line(), "ready");
    const int visits = share_of(20);
    for (int visit = 0; visit < visits && !HasFailure(); ++visit) {
        Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
        for (int i = share_of(200); i > 0 && !HasFailure(); --i) {
            fixture.send("go");
            EXPECT_THAT(read_answer(fixture).failures, IsEmpty());
        }
        memleax.wait_until_watching();
        EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    }
    fixture.send("quit");
    EXPECT_EQ(fixture.wait_for_end(), 0);
}

// Signals that it ignores wake a traced thread, several in each of its time limits. On a CPU whose
// registers do not tell of a call that the kernel continues by itself, that one does so.
TEST(StarvedLimits, EndWhileSignalsComeThatAreIgnored) {
    for (const bool has_filter : {false, true}) {
        CommandLine command{{fixture_path("starved_limits")}};
        if (has_filter) { // then no call is continued by the kernel: the filter may forbid that
            command.words.insert(command.words.begin(), fixture_path("filtered"));
        }
        Fixture fixture(command);
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        EXPECT_THAT(fixture.go().failures, IsEmpty()) << has_filter;
        EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
