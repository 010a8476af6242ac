// SPDX-License-Identifier: GPL-3.0-or-later
// Signals that were held back come once each, with what was sent along, and in the order in which
// they were sent.
#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;

int told;
int may_go;

/// The handler of a signal with this waits for a word.
constexpr int kWaits = 7;

/// What was sent along with it; negative for one that does not queue.
void tell(int signal, siginfo_t* info, void* /*context*/) {
    const int value = signal == SIGUSR1 ? -info->si_value.sival_int : info->si_value.sival_int;
    (void)!write(told, &value, sizeof value);
    if (value == kWaits) {
        char byte = 0;
        (void)!read(may_go, &byte, 1);
    }
}

/// Told this, it executes dd(1), which ends when it is told something else.
constexpr char kExecute = 'x';

[[noreturn]] void be_receiver(int go, int tell_to) {
    told = tell_to;
    may_go = go;
    struct sigaction action {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    char byte = 0;
    (void)!write(tell_to, &byte, 1);
    (void)!read(go, &byte, 1);
    if (byte == kExecute) {
        dup2(go, STDIN_FILENO);
        execlp("dd", "dd", "bs=1", "count=1", "of=/dev/null", "status=none", nullptr);
    }
    _exit(0);
}

class HeldSignals : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(pipe(go_.data()), 0);
        ASSERT_EQ(pipe(tell_.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            be_receiver(go_[0], tell_[1]);
        }
        close(tell_[1]);
        char byte = 0;
        ASSERT_EQ(read(tell_[0], &byte, 1), 1);
    }
    void TearDown() override {
        for (const int fd : {go_[0], go_[1], tell_[0]}) {
            close(fd);
        }
    }
    void trace(const std::function<void(Target&)>& test) {
        trace([&test](Target& target, Tracer& /*tracer*/) { test(target); });
    }
    void trace(const std::function<void(Target&, Tracer&)>& test) {
        std::thread([&] {
            Tracer tracer(nullptr);
            auto target = Target::seize(tracer, tid());
            ASSERT_TRUE(target) << target.error().message();
            test(**target, tracer);
        }).join();
    }
    void send(int signal, int value) const {
        sigval with{};
        with.sival_int = value;
        ASSERT_EQ(sigqueue(pid_, signal, with), 0);
    }
    void send_to_thread(int signal, int value) const {
        siginfo_t info{};
        info.si_signo = signal;
        info.si_code = SI_QUEUE;
        info.si_value.sival_int = value;
        ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, pid_, pid_, signal, &info), 0);
    }
    void expect_stop(Target& target, int signal) const {
        ASSERT_TRUE(target.next_event(Target::Wait::block));
        ASSERT_EQ(target.stop_signal(tid()), signal);
    }
    void deliver(Target& target) const { target.resume(tid(), target.stop_signal(tid())); }
    void hold(Target& target) const {
        ASSERT_TRUE(target.signals().hold(tid()));
        target.resume(tid());
    }
    [[nodiscard]] int next_value() const {
        int value = 0;
        EXPECT_EQ(read(tell_[0], &value, sizeof value), ssize_t{sizeof value});
        return value;
    }
    void say_go() const { say('\0'); }
    void say(char what) const { ASSERT_EQ(write(go_[1], &what, 1), 1); }
    /// What its handlers told, until its end.
    std::vector<int> finish() {
        say_go();
        std::vector<int> values;
        for (int value = 0; read(tell_[0], &value, sizeof value) == ssize_t{sizeof value};) {
            values.push_back(value);
        }
        int status = -1;
        EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
        EXPECT_EQ(status, 0);
        return values;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] Tid tid() const { return Tid(pid_); }

  private:
    std::array<int, 2> go_{};
    std::array<int, 2> tell_{};
    pid_t pid_ = 0;
};

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

class HeldSignalsWithoutRoom : public HeldSignals {
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
        target.signals().send_late(std::move(late), Patience(kLongMs));
        make_room.join();
        EXPECT_EQ(target.record().owed_count.load(), 0U);
    });
    EXPECT_EQ(next_value(), 1);
    EXPECT_EQ(next_value(), 2);
    EXPECT_THAT(finish(), ElementsAre());
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
