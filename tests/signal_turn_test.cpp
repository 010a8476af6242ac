// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/signal_turn.hpp"

#include <gtest/gtest.h>

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

} // namespace
} // namespace memleax
