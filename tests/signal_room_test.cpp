// SPDX-License-Identifier: GPL-3.0-or-later
// Signals that were held back while as many are pending as their user may have (RLIMIT_SIGPENDING).
#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "memleax/base/patience.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "signal_receiver_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;

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

} // namespace
} // namespace memleax::testing
