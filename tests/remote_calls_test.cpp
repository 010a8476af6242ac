// SPDX-License-Identifier: GPL-3.0-or-later
// A system call of ours in a thread that is about to get a signal of its own: it gets that one
// afterwards, and nothing else, also if its tracer dies.
#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"

namespace memleax::testing {
namespace {

struct Seen {
    int signals = 0; ///< of the number that it has raised
    int others = 0;
    int code = 0; ///< si_code
};
volatile sig_atomic_t raised;
volatile Seen seen;

void count(int signal, siginfo_t* info, void* /*context*/) {
    if (signal == raised) {
        seen.signals = seen.signals + 1;
        seen.code = info->si_code;
    } else {
        seen.others = seen.others + 1;
    }
}

/// Waits to be seized, raises `signal`, and tells what its handlers saw. `catches_all`: it has one
/// for each signal that could stand for another.
[[noreturn]] void be_raiser(int signal, bool catches_all, int go, int tell) {
    struct sigaction action {};
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO;
    sigaction(signal, &action, nullptr);
    for (const int other : RecoveryRecord::kStandIns) {
        if (catches_all) {
            sigaction(other, &action, nullptr);
        }
    }
    raised = signal;
    char byte = 0;
    (void)!read(go, &byte, 1);
    syscall(SYS_tgkill, getpid(), gettid(), signal);
    volatile std::uint64_t sum = 0;
    for (int i = 0; i < 1000; ++i) {
        sum = sum + static_cast<std::uint64_t>(i);
    }
    const Seen result{seen.signals, seen.others + (sum == 499'500 ? 0 : 1000), seen.code};
    (void)!write(tell, &result, sizeof result);
    _exit(0);
}

struct Case {
    int signal;
    bool catches_all;
};
void PrintTo(const Case& each, std::ostream* out) {
    *out << each.signal << (each.catches_all ? ", all are caught" : "");
}

class BeforeItsSignal : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        ASSERT_EQ(pipe(go_.data()), 0);
        ASSERT_EQ(pipe(tell_.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            be_raiser(GetParam().signal, GetParam().catches_all, go_[0], tell_[1]);
        }
        close(tell_[1]);
    }
    void TearDown() override {
        for (const int fd : {go_[0], go_[1], tell_[0]}) {
            close(fd);
        }
    }
    /// A thread of its own, with whose end the kernel lets go of the process.
    void trace(const std::function<void(Target&)>& test) {
        std::thread([&] {
            auto target = Target::seize(*tracer_, tid());
            ASSERT_TRUE(target) << target.error().message();
            (void)!write(go_[1], "", 1);
            ASSERT_TRUE((*target)->next_event(Target::Wait::block));
            ASSERT_EQ((*target)->stop_signal(tid()), GetParam().signal);
            for (int i = 0; i < 3; ++i) {
                const auto result = (*target)->system_call(tid(), SYS_getpid, {});
                ASSERT_TRUE(result) << result.error().message();
                EXPECT_EQ(*result, pid_);
            }
            test(**target);
            (void)target->release(); // its end would let go of the thread in order
        }).join();
    }
    /// What the process says at its end, which is a good one.
    Seen finish() {
        Seen result;
        EXPECT_EQ(read(tell_[0], &result, sizeof result), static_cast<ssize_t>(sizeof result));
        int status = -1;
        EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
        EXPECT_EQ(status, 0);
        return result;
    }
    [[nodiscard]] Tid tid() const { return Tid(pid_); }

  private:
    Tracer* tracer_ = new Tracer(nullptr); // NOLINT: the Target that is left refers to it
    std::array<int, 2> go_{};
    std::array<int, 2> tell_{};
    pid_t pid_ = 0;
};

TEST_P(BeforeItsSignal, ItGetsThatOneAfterwards) {
    trace([this](Target& target) { target.resume(tid(), target.stop_signal(tid())); });
    const Seen result = finish();
    EXPECT_EQ(result.signals, 1);
    EXPECT_EQ(result.code, SI_TKILL);
    EXPECT_EQ(result.others, 0);
}

// The stop was taken, so that the guardian would send the signal. Nothing else comes: no step's
// SIGTRAP, no signal that stood for this one.
TEST_P(BeforeItsSignal, NothingComesFromATracerThatHasDied) {
    trace([](Target&) {});
    const Seen result = finish();
    EXPECT_EQ(result.signals, 0);
    EXPECT_EQ(result.others, 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, BeforeItsSignal,
                         ::testing::Values(Case{SIGTRAP, false}, Case{SIGTRAP, true},
                                           Case{SIGUSR1, false}, Case{SIGURG, false},
                                           Case{SIGURG, true}, Case{SIGWINCH, true},
                                           Case{SIGCHLD, true}),
                         [](const auto& instance) {
                             return std::to_string(instance.param.signal) +
                                    (instance.param.catches_all ? "AllCaught" : "");
                         });

/// Is there a SIGSTOP for this process that no thread has taken yet?
bool stop_is_pending(pid_t pid) {
    const auto info = try_read_process_info(Tid(pid));
    return info &&
           ((info->pending_signals | info->shared_pending_signals) & signal_bit(SIGSTOP)) != 0;
}

// It would come again behind the SIGCONT, and the process would be stopped for good.
TEST(RemoteCall, AStopThatComesBetweenIsEndedByASigcontAsAlways) {
    const pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    std::thread([pid] {
        const Tid tid(pid);
        auto tracer = std::make_unique<Tracer>(nullptr);
        auto target = Target::seize(*tracer, tid);
        ASSERT_TRUE(target) << target.error().message();
        (*target)->interrupt(tid);
        ASSERT_TRUE((*target)->next_event(Target::Wait::block));
        (*target)->consume_stop(tid);
        for (int i = 0; i < 300; ++i) {
            kill(pid, SIGSTOP);
            std::thread other([pid] {
                while (stop_is_pending(pid)) {
                }
                kill(pid, SIGCONT);
            });
            const auto result = (*target)->system_call(tid, SYS_getpid, {});
            other.join();
            ASSERT_TRUE(result) << result.error().message();
            ASSERT_EQ(*result, pid);
            ASSERT_FALSE(stop_is_pending(pid)) << i;
        }
    }).join();
    kill(pid, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, SIGKILL);
}

} // namespace
} // namespace memleax::testing
