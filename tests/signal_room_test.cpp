// SPDX-License-Identifier: GPL-3.0-or-later
// Signals that were held back while as many are pending as their user may have (RLIMIT_SIGPENDING).
#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "signal_receiver_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class HeldSignalsWithoutRoom : public SignalReceiver {
  protected:
    void limit(rlim_t most) const {
        rlimit to{};
        ASSERT_EQ(prlimit(tid().value(), RLIMIT_SIGPENDING, nullptr, &to), 0);
        to.rlim_cur = std::min(most, to.rlim_max);
        ASSERT_EQ(prlimit(tid().value(), RLIMIT_SIGPENDING, &to, nullptr), 0);
    }
    void hold_two(Target& target) const {
        for (const int value : {1, 2}) {
            send(SIGRTMIN, value);
            expect_stop(target, SIGRTMIN);
            hold(target);
        }
        limit(0);
    }
    /// Two of its signals have found no room, and it goes on untraced.
    std::vector<ThreadSignals::Late> let_go_late(Target& target) const {
        hold_two(target);
        target.interrupt(tid());
        EXPECT_TRUE(target.next_event(Target::Wait::block));
        auto late = target.signals().send_all_held();
        EXPECT_EQ(late.size(), 2U);
        target.detach(tid());
        return late;
    }
    static std::vector<int> owed_values(Target& target) {
        std::vector<int> values;
        for (const RecoveryRecord::OwedSignal& entry : target.record().owed) {
            if (entry.tid.load() != 0) {
                values.push_back(entry.info.si_value.sival_int);
            }
        }
        return values;
    }
    static siginfo_t queued(int value) {
        siginfo_t info{};
        info.si_signo = SIGRTMIN;
        info.si_code = SI_QUEUE;
        info.si_value.sival_int = value;
        return info;
    }
};

TEST_F(HeldSignalsWithoutRoom, StayHeldAndOwed) {
    trace([this](Target& target) {
        hold_two(target);
        ASSERT_TRUE(target.signals().send_held(tid()));
        EXPECT_TRUE(target.signals().any_held());
        EXPECT_EQ(target.record().owed_count.load(), 2U);
        limit(RLIM_INFINITY);
        for (int i = 0; i < 2; ++i) {
            target.signals().send_held_to_running(); // as at a tick
            expect_stop(target, SIGRTMIN);
            deliver(target);
        }
        EXPECT_FALSE(target.signals().any_held());
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

// That came while a thread executed something for us.
TEST_F(HeldSignalsWithoutRoom, AreSentOneBehindTheOther) {
    trace([this](Target& target) {
        limit(0);
        target.signals().send_again(tid(), queued(1));
        limit(RLIM_INFINITY);
        target.signals().send_again(tid(), queued(2));
        EXPECT_EQ(target.record().owed_count.load(), 1U);
        for (int i = 0; i < 2; ++i) {
            target.signals().send_held_to_running();
            expect_stop(target, SIGRTMIN);
            deliver(target);
        }
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

TEST_F(HeldSignalsWithoutRoom, AreWaitedForWhenTheThreadIsLetGoOf) {
    trace([this](Target& target) {
        hold_two(target);
        target.interrupt(tid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        auto late = target.signals().send_all_held();
        EXPECT_EQ(late.size(), 2U);
        target.detach(tid());
        std::thread make_room([this] { limit(RLIM_INFINITY); });
        constexpr std::int64_t kLongMs = 60'000;
        for (const Patience patience(kLongMs); !late.empty() && !patience.is_over();) {
            target.signals().send_late(&late);
        }
        make_room.join();
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_EQ(next_value(), 1);
    EXPECT_EQ(next_value(), 2);
    EXPECT_THAT(finish(), ElementsAre());
}

// Should memleax be killed meanwhile, the guardian sends them.
TEST_F(HeldSignalsWithoutRoom, AreAllOwedWhileTheyWait) {
    trace([this](Target& target) {
        auto late = let_go_late(target);
        EXPECT_EQ(target.record().owed_count.load(), 0U) << "as its thread was let go of";
        for (int i = 0; i < 3; ++i) {
            target.signals().send_late(&late);
            EXPECT_EQ(late.size(), 2U);
            EXPECT_THAT(owed_values(target), UnorderedElementsAre(1, 2));
        }
        limit(RLIM_INFINITY);
        target.signals().send_late(&late);
        EXPECT_EQ(late.size(), 0U);
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

// The thread has ended, and its number is one of another process's.
TEST_F(HeldSignalsWithoutRoom, AreNotForAnotherProcess) {
    const pid_t other = fork(); // which would be ended by them
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
    }
    trace([&](Target& target) {
        auto late = let_go_late(target);
        limit(RLIM_INFINITY);
        ASSERT_EQ(late.size(), 2U);
        late[0].tid = Tid(other);
        late[0].was_caught = false;
        ++late[1].start_time; // the process's first thread has that number always
        target.signals().send_late(&late);
        EXPECT_EQ(late.size(), 0U);
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_THAT(finish(), ElementsAre());
    int status = 0;
    kill(other, SIGKILL);
    EXPECT_EQ(waitpid(other, &status, 0), other);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

// It has no handlers, and would be ended.
TEST_F(HeldSignalsWithoutRoom, AreNotForTheNextProgram) {
    trace([this](Target& target) {
        auto late = let_go_late(target);
        say(kExecute);
        while (ThreadSignals::is_caught(tid(), SIGRTMIN)) {
            poll(nullptr, 0, 1);
        }
        limit(RLIM_INFINITY);
        target.signals().send_late(&late);
        EXPECT_EQ(late.size(), 0U);
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_THAT(finish(), ElementsAre());
}

// Nor is what has ended the old one to be lost.
TEST_F(HeldSignalsWithoutRoom, ThatNobodyCatchesAreSentAllTheSame) {
    siginfo_t info = queued(1);
    info.si_signo = SIGRTMIN + 1;
    trace([&](Target& target) {
        limit(0);
        target.signals().send_again(tid(), info);
        target.interrupt(tid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        auto late = target.signals().send_all_held();
        ASSERT_EQ(late.size(), 1U);
        target.detach(tid());
        limit(RLIM_INFINITY);
        target.signals().send_late(&late);
        EXPECT_EQ(late.size(), 0U);
    });
    int status = 0;
    EXPECT_EQ(waitpid(pid(), &status, 0), pid());
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGRTMIN + 1);
}

} // namespace
} // namespace memleax::testing
