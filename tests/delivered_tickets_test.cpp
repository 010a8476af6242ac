// SPDX-License-Identifier: GPL-3.0-or-later
// Up to when all has been told, where entries come out of order, late, or never.
#include "../src/engine/inline/delivered_tickets.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr MonotonicNs kBegin{5'000'000'000};

MonotonicNs after_ms(std::int64_t ms) {
    return MonotonicNs(kBegin.value() + ms * 1'000'000);
}

TEST(DeliveredTickets, UntilTheFirstThatIsMissing) {
    DeliveredTickets tickets;
    tickets.add(0);
    tickets.add(2);
    tickets.mark(2, kBegin);
    EXPECT_EQ(tickets.until(), MonotonicNs());
    tickets.mark(3, after_ms(1));
    tickets.add(1);
    tickets.mark(3, after_ms(2));
    EXPECT_EQ(tickets.until(), after_ms(2));
}

// A thread that was stopped with its number in its hand comes later than anybody waits.
TEST(DeliveredTickets, GoesOnBehindOneThatIsNotWaitedForAnyMore) {
    DeliveredTickets tickets;
    tickets.add(1);
    tickets.add(2);
    tickets.mark(3, kBegin);
    tickets.mark(3, after_ms(1'900));
    EXPECT_EQ(tickets.until(), MonotonicNs());
    tickets.mark(3, after_ms(2'100));
    EXPECT_EQ(tickets.until(), after_ms(2'100));
    tickets.add(0);
    tickets.add(3);
    tickets.add(5);
    tickets.mark(6, after_ms(2'200));
    EXPECT_EQ(tickets.until(), after_ms(2'100));
    tickets.add(4);
    tickets.mark(6, after_ms(2'300));
    EXPECT_EQ(tickets.until(), after_ms(2'300));
}

TEST(DeliveredTickets, TakesWhatCameEarlyBehindOneThatIsNotWaitedForAnyMore) {
    DeliveredTickets tickets;
    tickets.mark(1, kBegin);
    tickets.add(1);
    tickets.mark(2, after_ms(2'100));
    EXPECT_EQ(tickets.until(), after_ms(2'100));
}

} // namespace
} // namespace memleax
