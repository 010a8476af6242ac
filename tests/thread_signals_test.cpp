// SPDX-License-Identifier: GPL-3.0-or-later
// Signals that were held back come once each, with what was sent along, and in the order in which
// they were sent.
#include <csignal>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "signal_receiver_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;

using HeldSignals = SignalReceiver;

TEST_F(HeldSignals, AYoungerOneWaitsInItsStead) {
    trace([this](Target& target) {
        send(SIGRTMIN, 1);
        expect_stop(target, SIGRTMIN);
        hold(target);
        send(SIGRTMIN, 2);
        expect_stop(target, SIGRTMIN);
        deliver(target); // the first
        ASSERT_TRUE(target.signals().send_held(tid()));
        expect_stop(target, SIGRTMIN);
        deliver(target);
        EXPECT_FALSE(target.signals().send_held(tid()));
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

TEST_F(HeldSignals, HeldAgainItIsStillTheFirst) {
    trace([this](Target& target) {
        for (const int value : {1, 2, 3}) {
            send(SIGRTMIN, value);
            expect_stop(target, SIGRTMIN);
            hold(target);
        }
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(target.signals().send_held(tid()));
            expect_stop(target, SIGRTMIN);
            deliver(target);
        }
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2, 3));
}

TEST_F(HeldSignals, OneThatIsSentMeanwhileDoesNotOvertake) {
    trace([this](Target& target) {
        send(SIGRTMIN, 1);
        expect_stop(target, SIGRTMIN);
        siginfo_t first{};
        first.si_signo = SIGRTMIN;
        first.si_code = SI_QUEUE;
        first.si_value.sival_int = 1;
        target.drop_stop_signal(tid());
        target.interrupt(tid());
        target.resume(tid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        send_to_thread(SIGRTMIN, 2); // as ours
        target.signals().send_again(tid(), first);
        target.resume(tid());
        expect_stop(target, SIGRTMIN);
        EXPECT_TRUE(target.signals().awaits_sent(tid()))
            << "let go of now, it would lose the second";
        deliver(target);
        expect_stop(target, SIGRTMIN);
        EXPECT_FALSE(target.signals().awaits_sent(tid()));
        deliver(target);
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

// It stood still for milliseconds until others had got out of our code.
TEST_F(HeldSignals, YoungerOnesComeLaterWhereItIsLetGoOf) {
    trace([this](Target& target) {
        send(SIGRTMIN, 1);
        expect_stop(target, SIGRTMIN);
        hold(target);
        send(SIGRTMIN, 2);
        expect_stop(target, SIGRTMIN);
        ASSERT_TRUE(target.signals().hold(tid())); // before the other
        send(SIGUSR1, 8);
        target.resume(tid());
        expect_stop(target, SIGUSR1);
        send_to_thread(SIGRTMIN, 3);
        send_to_thread(SIGRTMIN, 4);
        EXPECT_EQ(target.signals().send_all_held().size(), 0U);
        target.detach(tid(), target.stop_signal(tid()));
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2, 3, 4, -8));
}

// The handler that it is in blocks them.
TEST_F(HeldSignals, YoungerOnesComeLaterWhereTheyAreBlocked) {
    trace([this](Target& target) {
        send(SIGRTMIN, kWaits);
        expect_stop(target, SIGRTMIN);
        hold(target);
        send(SIGRTMIN, 1); // waits in its stead
        expect_stop(target, SIGRTMIN);
        deliver(target);
        EXPECT_EQ(next_value(), kWaits);
        target.interrupt(tid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        send_to_thread(SIGRTMIN, 2);
        send_to_thread(SIGRTMIN, 3);
        EXPECT_EQ(target.signals().send_all_held().size(), 0U);
        const auto info = try_read_process_info(tid());
        EXPECT_TRUE(info && (info->blocked_signals & signal_bit(SIGRTMIN)) != 0);
        target.detach(tid(), target.stop_signal(tid()));
    });
    say_go();
    EXPECT_THAT(finish(), ElementsAre(1, 2, 3));
}

// Sent again, it would come from us.
TEST_F(HeldSignals, YoungerOnesStayInTheirQueueWhereTheyHaveNoValue) {
    trace([this](Target& target) {
        send(SIGRTMIN, 1);
        expect_stop(target, SIGRTMIN);
        hold(target);
        send(SIGUSR1, 8);
        expect_stop(target, SIGUSR1);
        send_to_thread(SIGRTMIN, 2);
        ASSERT_EQ(syscall(SYS_tgkill, pid(), pid(), SIGRTMIN), 0); // with 0
        EXPECT_EQ(target.signals().send_all_held().size(), 0U);
        target.detach(tid(), target.stop_signal(tid()));
    });
    EXPECT_THAT(finish(), ElementsAre(2, 0, 1, -8));
}

// Whoever waits for something else keeps it in its stop, from which the kernel delivers it should
// we die: sent again by the guardian, a raise() would have returned without its handler.
TEST_F(HeldSignals, OneThatStandsInLineIsNotTaken) {
    trace([this](Target& target, Tracer& tracer) {
        send(SIGUSR1, 8);
        while (!target.is_stopped(tid())) {
            EXPECT_FALSE(tracer.next_stop_but_of(&target));
        }
        siginfo_t there{};
        EXPECT_EQ(
            waitid(P_PID, static_cast<id_t>(pid()), &there, WSTOPPED | WNOWAIT | WNOHANG | __WALL),
            0);
        EXPECT_EQ(there.si_pid, pid());
        expect_stop(target, SIGUSR1);
        deliver(target);
    });
    EXPECT_THAT(finish(), ElementsAre(-8));
}

// Its handler blocks its number, and a younger one is queued meanwhile, in front of what is sent
// again.
TEST_F(HeldSignals, OneThatIsBlockedNowIsStillToCome) {
    trace([this](Target& target) {
        send(SIGRTMIN, kWaits);
        expect_stop(target, SIGRTMIN);
        hold(target);
        send(SIGRTMIN, 1);
        expect_stop(target, SIGRTMIN);
        deliver(target); // what was held back
        ASSERT_EQ(next_value(), kWaits);
        send(SIGRTMIN, 2);
        ASSERT_TRUE(target.signals().send_held(tid()));
        EXPECT_TRUE(target.signals().awaits_sent(tid())) << "let go of now, it would get 2 first";
        say_go();
        for (int i = 0; i < 2; ++i) {
            expect_stop(target, SIGRTMIN);
            deliver(target);
        }
        EXPECT_FALSE(target.signals().awaits_sent(tid()));
    });
    EXPECT_THAT(finish(), ElementsAre(1, 2));
}

// signal(7): one that is pending already is not queued a second time, and the first one's siginfo
// stays.
TEST_F(HeldSignals, ThoseThatDoNotQueueAreOne) {
    trace([this](Target& target) {
        send(SIGUSR1, 1);
        expect_stop(target, SIGUSR1);
        hold(target);
        send(SIGUSR1, 2);
        expect_stop(target, SIGUSR1);
        deliver(target);
        EXPECT_FALSE(target.signals().any_held());
    });
    EXPECT_THAT(finish(), ElementsAre(-1));
}

TEST_F(HeldSignals, EachNumberIsSentForItself) {
    trace([this](Target& target) {
        send(SIGUSR1, 1);
        expect_stop(target, SIGUSR1);
        hold(target);
        send(SIGRTMIN, 2);
        expect_stop(target, SIGRTMIN);
        hold(target);
        std::vector<int> stops;
        for (int i = 0; i < 2; ++i) {
            ASSERT_TRUE(target.signals().send_held(tid()));
            ASSERT_TRUE(target.next_event(Target::Wait::block));
            stops.push_back(target.stop_signal(tid()));
            deliver(target);
        }
        EXPECT_THAT(stops, ::testing::UnorderedElementsAre(SIGUSR1, SIGRTMIN));
    });
    EXPECT_THAT(finish(), ::testing::UnorderedElementsAre(-1, 2));
}

// Without a handler it would have been its end.
TEST_F(HeldSignals, AreForgottenWhenTheirHandlersAreGone) {
    trace([this](Target& target) {
        send(SIGUSR1, 1);
        expect_stop(target, SIGUSR1);
        hold(target);
        say(kExecute);
        const auto event = target.next_event(Target::Wait::block);
        ASSERT_TRUE(event);
        ASSERT_TRUE(std::holds_alternative<ExecStop>(*event));
        EXPECT_FALSE(target.signals().any_held());
        target.resume(tid());
        target.signals().send_held_to_running();
    });
    EXPECT_THAT(finish(), ElementsAre());
}

TEST_F(HeldSignals, ThatAreOnTheirWayAreNotForTheNewProgram) {
    trace([this](Target& target) {
        send(SIGUSR1, 1);
        expect_stop(target, SIGUSR1);
        hold(target);
        target.interrupt(tid());
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        const auto mask = StoppedThread(tid()).signal_mask();
        ASSERT_TRUE(mask);
        StoppedThread(tid()).set_signal_mask(*mask | signal_bit(SIGUSR1)); // as a handler's may
        ASSERT_TRUE(target.signals().send_held(tid()));
        say(kExecute);
        target.resume(tid());
        const auto event = target.next_event(Target::Wait::block);
        ASSERT_TRUE(event);
        ASSERT_TRUE(std::holds_alternative<ExecStop>(*event));
        StoppedThread(tid()).set_signal_mask(*mask);
        target.resume(tid());
        expect_stop(target, SIGUSR1);
        deliver(target);
    });
    EXPECT_THAT(finish(), ElementsAre());
}

TEST_F(HeldSignals, AreNoneThatNobodyHandles) {
    trace([this](Target& target) {
        send(SIGUSR2, 1);
        expect_stop(target, SIGUSR2);
        EXPECT_FALSE(target.signals().hold(tid()));
        target.drop_stop_signal(tid());
        target.resume(tid());
    });
    EXPECT_THAT(finish(), ElementsAre());
}

} // namespace
} // namespace memleax::testing
