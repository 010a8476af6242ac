// SPDX-License-Identifier: GPL-3.0-or-later
// A call of malloc's that was under way at the attach gives a block of which nobody knows, where
// one was freed meanwhile: its end is no second free of that one. Those that are, are told.
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

TEST(EarlierCalls, ABlockOfOneIsFreedOnce) {
    Fixture fixture("slow_malloc");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    (void)fixture.ask("go");
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("session").at("events").at("double_free"), 0)
        << report.value("errors", nlohmann::json());
}

TEST(EarlierCalls, WhenItIsOverSecondFreesAreFound) {
    Fixture fixture("slow_malloc");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    (void)fixture.ask("go");
    (void)fixture.ask("twice");
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("session").at("events").at("double_free"), 1);
}

} // namespace
} // namespace memleax::testing
