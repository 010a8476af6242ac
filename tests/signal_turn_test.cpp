// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/signal_turn.hpp"

#include <array>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/target/target.hpp"

namespace memleax {
namespace {

class SignalTurnTest : public ::testing::Test {
  protected:
    void deal_with_a_long_stop(std::int64_t from, std::int64_t to) {
        ASSERT_TRUE(turn_.asks_for_long_stops());
        turn_.on_long_stop(MonotonicNs(from));
        ASSERT_TRUE(turn_.is_to_begin());
        turn_.begin(MonotonicNs(to));
    }
    bool is_over(std::int64_t now) { return turn_.is_over(MonotonicNs(now)); }

    SignalTurn turn_;
};

TEST_F(SignalTurnTest, WithoutSignalsNothingIsAskedFor) {
    EXPECT_FALSE(turn_.asks_for_long_stops());
    EXPECT_FALSE(turn_.is_to_begin());
    EXPECT_FALSE(turn_.is_on());
}

TEST_F(SignalTurnTest, SignalsGetAsMuchTimeAsTheLongStopTook) {
    turn_.on_signal();
    deal_with_a_long_stop(1000, 1400);
    EXPECT_FALSE(turn_.is_to_begin());
    EXPECT_TRUE(turn_.is_on());
    EXPECT_FALSE(is_over(1799));
    EXPECT_TRUE(is_over(1800));
    turn_.end();
    EXPECT_FALSE(turn_.is_on());
}

TEST_F(SignalTurnTest, OneTurnForEachLongStopAfterWhichASignalCame) {
    turn_.on_signal();
    deal_with_a_long_stop(1000, 1400);
    EXPECT_FALSE(turn_.asks_for_long_stops());
    turn_.on_signal();
    turn_.end();
    deal_with_a_long_stop(1900, 2000);
    EXPECT_FALSE(is_over(2099));
    EXPECT_TRUE(is_over(2100));
}

TEST_F(SignalTurnTest, ATurnIsNeverLongerThanATenthOfASecond) {
    turn_.on_signal();
    deal_with_a_long_stop(1'000, 1'000'000'000);
    EXPECT_FALSE(is_over(1'099'999'999));
    EXPECT_TRUE(is_over(1'100'000'000));
}

[[noreturn]] void raise_signals() {
    for (const int signal : {SIGUSR1, SIGUSR2, SIGTRAP, SIGUSR2, SIGUSR1, SIGUSR1}) {
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
    }
    _exit(0);
}

/// Each SIGTRAP is a hit of ours that takes long.
class LongHits : public StopHandler {
  public:
    bool move_hit_to_slot(Tid /*tid*/) override { return true; }
    [[nodiscard]] bool takes_long(Tid /*tid*/) const override { return true; }
    void on_stop(const StopEvent& /*event*/) override {}
};

// The turn looks at new stops only, of which one may stand in line already: it had not been taken,
// as its signal would be lost with us. Told of twice, a thread got the signal of the stop before.
TEST(SignalTurnOfATracer, TellsOfAStopOnce) {
    std::array<int, 2> go{};
    ASSERT_EQ(pipe(go.data()), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        char byte = 0;
        (void)!read(go[0], &byte, 1);
        raise_signals();
    }
    std::thread([pid, &go] {
        Tracer tracer(nullptr);
        auto target = Target::seize(tracer, Tid(pid));
        ASSERT_TRUE(target) << target.error().message();
        LongHits handler;
        (*target)->set_handler(&handler);
        const auto next_signal = [&] {
            const auto stop = tracer.next_stop(Tracer::Wait::block);
            return stop ? (*target)->stop_signal(tid_of(stop->event)) : -1;
        };
        const auto go_on = [&] { (*target)->resume(Tid(pid)); };
        ASSERT_EQ(write(go[1], "", 1), 1);
        EXPECT_EQ(next_signal(), SIGUSR1);
        go_on();
        EXPECT_EQ(next_signal(), SIGUSR2);
        go_on();
        EXPECT_EQ(next_signal(), SIGTRAP); // after which it is the signals' turn
        go_on();
        const auto put_in_line = tracer.wait_for(Tid(-1), 0);
        ASSERT_TRUE(put_in_line);
        tracer.queue().push(*put_in_line);
        EXPECT_EQ(next_signal(), SIGUSR2);
        go_on();
        for (int i = 0; i < 2; ++i) {
            const auto stop = tracer.next_stop(Tracer::Wait::block);
            ASSERT_TRUE(stop);
            ASSERT_TRUE(std::holds_alternative<SignalStop>(stop->event));
            EXPECT_EQ(std::get<SignalStop>(stop->event).signal, SIGUSR1);
            go_on();
        }
        (*target)->set_handler(nullptr);
    }).join();
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    close(go[0]);
    close(go[1]);
}

} // namespace
} // namespace memleax
