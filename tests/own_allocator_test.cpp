// SPDX-License-Identifier: GPL-3.0-or-later
// An allocator of its own that a plugin brings: by dlopen while watched (ExactCounts has that too),
// before the attach, and in a program that memleax starts.
#include <fstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

/// What came in the second of two answers.
FixtureAnswer second_round(const FixtureAnswer& first, FixtureAnswer both) {
    for (const auto& [function, leak] : first.truth) {
        both.truth[function].blocks -= leak.blocks;
        both.truth[function].bytes -= leak.bytes;
    }
    return both;
}

struct Round {
    FixtureAnswer answer; ///< what the fixture says
    nlohmann::json report;
};

/// One round of the fixture, which runs already, while it is watched.
Round watch_round(Fixture& fixture) {
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    return {std::move(answer), result.json()};
}

TEST(OwnAllocator, ThatWasLoadedBeforeTheAttachIsFound) {
    Fixture fixture("own_allocator");
    const FixtureAnswer first = fixture.go();
    for (int i = 0; i < 2; ++i) { // it is found again, and was left as it was
        const FixtureAnswer so_far = fixture.ask("status");
        const TargetSnapshot before = take_snapshot(fixture.pid());
        const Round round = watch_round(fixture);
        const FixtureAnswer answer = second_round(so_far, round.answer);
        ASSERT_EQ(answer.truth.size(), first.truth.size());
        expect_truth(round.report, answer);
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(OwnAllocator, ThatComesWhileWeWatchIsLeftWhileItIsThere) {
    Fixture fixture("own_allocator");
    const Round round = watch_round(fixture);
    Leaks live = live_leaks(round.report);
    live.erase(kDynamicLinker); // of the plugin that is open
    EXPECT_EQ(live, round.answer.truth);
    EXPECT_THAT(fixture.go().failures, IsEmpty()); // a breakpoint that is left would end it
    EXPECT_EQ(fixture.quit(), 0);
}

// A breakpoint there would be a wrong number.
TEST(OwnAllocator, WhatIsNotInCodeIsNone) {
    Fixture fixture("data_symbols");
    const Round round = watch_round(fixture);
    expect_truth(round.report, round.answer);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(OwnAllocator, OfAProgramThatMemleaxStartsIsFoundWhenItComes) {
    const test::TemporaryFolder folder;
    Memleax memleax({"-F", "json", "-e", "1000", "-o", folder.file("report"), "--",
                     fixture_path("own_allocator")});
    const FixtureAnswer answer = memleax.let_fixture_go();
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    std::ifstream file(folder.file("report"));
    const auto report = nlohmann::json::parse(file);
    EXPECT_EQ(report.at("session").at("end_reason"), "target-exit");
    // At the end of the process all is live that libc and the dynamic linker keep; the plugin's
    // blocks are exactly those that were leaked.
    const Leaks live = live_leaks(report);
    for (const auto& [function, leak] : answer.truth) {
        ASSERT_TRUE(live.contains(function)) << function;
        EXPECT_EQ(live.at(function), leak) << function;
    }
}

} // namespace
} // namespace memleax::testing
