// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/supervise/tick_pace.hpp"

#include <gtest/gtest.h>

#include "memleax/engine/watch.hpp"

namespace memleax {
namespace {

constexpr std::int64_t kUs = 1000;

MonotonicNs at(std::int64_t us) {
    return MonotonicNs(1'000'000'000 + us * kUs);
}

TEST(TickPace, IsSlowWhereNothingIsWanted) {
    TickPace pace;
    EXPECT_TRUE(pace.is_due(at(0)));
    pace.on_tick(at(0), at(10), Watch::kAnyTime);
    EXPECT_EQ(pace.period(), 4000 * kUs);
    EXPECT_FALSE(pace.is_due(at(1999)));
    EXPECT_TRUE(pace.is_due(at(2000))); // for the one that comes by a stop
}

TEST(TickPace, ComesBeforeItIsTooLate) {
    TickPace pace;
    const auto period_for = [&pace](std::int64_t within) {
        pace.on_tick(at(0), at(10), within);
        return pace.period();
    };
    EXPECT_EQ(period_for(3999 * kUs), 2000 * kUs);
    EXPECT_EQ(period_for(2000 * kUs), 2000 * kUs);
    EXPECT_EQ(period_for(130 * kUs), 125 * kUs);
    EXPECT_EQ(period_for(0), 62'500); // and no more often
    EXPECT_TRUE(pace.is_due(at(32)));
    EXPECT_EQ(period_for(9000 * kUs), 4000 * kUs);
}

TEST(TickPace, HurriesWhereSomethingIsWaitedFor) {
    TickPace pace;
    pace.on_tick(at(0), at(10), Watch::kAnyTime);
    EXPECT_FALSE(pace.is_due(at(20)));
    pace.hurry();
    EXPECT_TRUE(pace.is_due(at(20)));
    EXPECT_EQ(pace.period(), TickPace::kSoonNs);
}

TEST(TickPace, LeavesSignalsAsMuchTimeAsItTakes) {
    TickPace pace;
    pace.on_tick(at(0), at(900), 125 * kUs);
    EXPECT_TRUE(pace.is_due(at(900))); // nobody else wants any
    pace.on_stop(true);
    pace.on_tick(at(900), at(1800), 125 * kUs);
    EXPECT_FALSE(pace.is_due(at(2699)));
    EXPECT_TRUE(pace.is_due(at(2700)));
}

} // namespace
} // namespace memleax
