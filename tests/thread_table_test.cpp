// SPDX-License-Identifier: GPL-3.0-or-later
// The books about a process's threads and births.
#include "memleax/target/thread_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../src/target/births.hpp"

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr Tid kFirst(100);
constexpr Tid kSecond(101);
constexpr Tid kChild(200);

TEST(ThreadTable, AThreadThatIsNotKnownIsNotStoppedAndGetsNoSignal) {
    const ThreadTable table;
    EXPECT_EQ(table.find(kFirst), nullptr);
    EXPECT_FALSE(table.is_stopped(kFirst));
    EXPECT_FALSE(table.is_child_process(kFirst));
    EXPECT_EQ(table.stop_signal(kFirst), 0);
    EXPECT_TRUE(table.all().empty()) << "to ask is not to enter";
}

TEST(ThreadTable, AThreadRunsUntilItsStopIsWrittenDown) {
    ThreadTable table;
    TracedThread& thread = table[kFirst];
    EXPECT_FALSE(table.is_stopped(kFirst));
    thread.state = TracedThread::State::stopped;
    thread.stop_signal = 11;
    EXPECT_TRUE(table.is_stopped(kFirst));
    EXPECT_EQ(table.stop_signal(kFirst), 11);
    table[kFirst].state = TracedThread::State::listening;
    EXPECT_FALSE(table.is_stopped(kFirst)) << "no ptrace request reaches one that listens";
}

TEST(ThreadTable, TidsStayWhileTheTableChanges) {
    ThreadTable table;
    table[kFirst];
    table[kSecond];
    table[kChild].is_child_process = true;
    const auto own = table.tids_if(
        [](Tid /*tid*/, const TracedThread& thread) { return !thread.is_child_process; });
    EXPECT_THAT(own, UnorderedElementsAre(kFirst, kSecond));
    for (const Tid tid : own) {
        table.remove(tid);
    }
    EXPECT_EQ(table.find(kFirst), nullptr);
    EXPECT_TRUE(table.is_child_process(kChild));
}

TEST(Births, TheParentReportsFirst) {
    Births births;
    births.expect(kChild);
    EXPECT_THAT(births.expected(), ElementsAre(kChild));
    EXPECT_FALSE(births.take_early(kChild));
    EXPECT_TRUE(births.take_expected(kChild));
    EXPECT_FALSE(births.take_expected(kChild)) << "once";
    EXPECT_TRUE(births.expected().empty());
}

TEST(Births, TheChildReportsFirst) {
    Births births;
    EXPECT_FALSE(births.take_expected(kChild));
    births.note_early(kChild);
    EXPECT_TRUE(births.expected().empty()) << "nobody waits for it any more";
    EXPECT_TRUE(births.take_early(kChild));
    EXPECT_FALSE(births.take_early(kChild)) << "once";
}

TEST(Births, OneThatIsGoneIsNeither) {
    Births births;
    births.expect(kFirst);
    births.note_early(kSecond);
    births.forget(kFirst);
    births.forget(kSecond);
    EXPECT_FALSE(births.take_expected(kFirst));
    EXPECT_FALSE(births.take_early(kSecond));
}

TEST(Births, OnlyThoseThatAreExpectedAreLookedAt) {
    Births births;
    births.expect(kFirst);
    births.expect(kSecond);
    births.note_early(kChild);
    births.forget_expected_if([](Tid tid) { return tid != kSecond; });
    EXPECT_THAT(births.expected(), ElementsAre(kSecond));
    EXPECT_TRUE(births.take_early(kChild));
}

} // namespace
} // namespace memleax
