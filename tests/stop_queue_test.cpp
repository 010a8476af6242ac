// SPDX-License-Identifier: GPL-3.0-or-later
// Who stands in line, and whose turn it is. A Target is only a name here.
#include "memleax/target/stop_queue.hpp"

#include <array>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;

class StopQueueTest : public ::testing::Test {
  protected:
    // Never looked into.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
    Target& target(std::size_t n) { return *reinterpret_cast<Target*>(&places_.at(n)); }
    void push(std::size_t target_number, const StopEvent& event) {
        queue_.push({&target(target_number), event});
    }
    std::vector<int> pop_all() {
        std::vector<int> tids;
        while (!queue_.empty()) {
            tids.push_back(tid_of(queue_.pop().event).value());
        }
        return tids;
    }
    StopQueue& queue() { return queue_; }

  private:
    std::array<std::uint64_t, 2> places_{};
    StopQueue queue_;
};

TEST_F(StopQueueTest, FirstComeFirstServed) {
    push(0, TrapStop{Tid(1)});
    push(1, QuietStop{Tid(2)});
    push(0, SignalStop{Tid(3), 10});
    EXPECT_EQ(queue().size(), 3U);
    EXPECT_TRUE(queue().has(Tid(2)));
    EXPECT_FALSE(queue().has(Tid(4)));
    EXPECT_THAT(pop_all(), ElementsAre(1, 2, 3));
    EXPECT_FALSE(queue().has(Tid(2)));
}

TEST_F(StopQueueTest, ATargetGetsItsOwnAndTheOthersKeepTheirPlaces) {
    push(0, QuietStop{Tid(1)});
    push(1, QuietStop{Tid(2)});
    push(0, QuietStop{Tid(3)});
    push(1, QuietStop{Tid(4)});
    const auto first = queue().pop_of(target(1));
    ASSERT_TRUE(first);
    EXPECT_EQ(tid_of(*first), Tid(2));
    const auto second = queue().pop_of(target(1));
    ASSERT_TRUE(second);
    EXPECT_EQ(tid_of(*second), Tid(4));
    EXPECT_FALSE(queue().pop_of(target(1)));
    EXPECT_THAT(pop_all(), ElementsAre(1, 3));
}

TEST_F(StopQueueTest, OneThreadsStopIsTakenOutOfTheMiddle) {
    push(0, QuietStop{Tid(1)});
    push(0, SignalStop{Tid(2), 10});
    push(0, ThreadGone{Tid(2), 0});
    EXPECT_FALSE(queue().pop_of(target(1), Tid(2))) << "it is the other target's";
    EXPECT_FALSE(queue().pop_of(target(0), Tid(3)));
    const auto taken = queue().pop_of(target(0), Tid(2));
    ASSERT_TRUE(taken);
    EXPECT_TRUE(std::holds_alternative<SignalStop>(*taken)) << "its first";
    EXPECT_THAT(pop_all(), ElementsAre(1, 2));
}

TEST_F(StopQueueTest, OneThatStandsInLineIsNotPutThereTwice) {
    push(0, SignalStop{Tid(1), 10});
    queue().push_once({&target(0), QuietStop{Tid(1)}});
    queue().push_once({&target(0), QuietStop{Tid(2)}});
    ASSERT_EQ(queue().size(), 2U);
    EXPECT_TRUE(std::holds_alternative<SignalStop>(queue().pop().event)) << "the first stays";
    // But a thread may have two stops to be told of: its birth's, and its end.
    push(0, ThreadGone{Tid(2), 0});
    EXPECT_THAT(pop_all(), ElementsAre(2, 2));
}

TEST_F(StopQueueTest, AThreadThatIsGoneHasNoStopsAnyMore) {
    push(0, BirthStop{Tid(1), Tid(2)});
    push(0, QuietStop{Tid(2)});
    push(0, QuietStop{Tid(1)});
    queue().forget(Tid(1));
    EXPECT_THAT(pop_all(), ElementsAre(2));
}

TEST_F(StopQueueTest, ATargetThatIsGoneHasNoStopsAnyMore) {
    push(0, QuietStop{Tid(1)});
    push(1, QuietStop{Tid(2)});
    push(0, QuietStop{Tid(3)});
    queue().forget(target(0));
    EXPECT_THAT(pop_all(), ElementsAre(2));
}

} // namespace
} // namespace memleax
