// SPDX-License-Identifier: GPL-3.0-or-later
// What is the inline engine's alone. That it counts as the other one does, the other live tests
// say: they run with both (MEMLEAX_TEST_ENGINE).
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;

struct Calls {
    std::int64_t without_stop = -1;
    std::int64_t trapped = -1;
};
Calls calls_of(const std::string& log) {
    std::smatch match;
    if (!std::regex_search(log, match,
                           std::regex("(\\d+) calls went without a stop, (\\d+) trap"))) {
        return {};
    }
    return {std::stoll(match[1]), std::stoll(match[2])};
}

TEST(InlineEngine, OnlyTheFirstCallFromAPlaceStops) {
    constexpr int kBlocks = 20000;
    Fixture fixture("big_live", {std::to_string(kBlocks)});
    Memleax memleax({"--engine", "inline", "--log", "debug", "-F", "json", "-e", "1000",
                     std::to_string(fixture.pid())});
    EXPECT_THAT(memleax.wait_until_watching(), HasSubstr("engine inline"));
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    expect_truth(report, answer);
    EXPECT_EQ(report.at("session").at("engine"), "inline");
    const Calls calls = calls_of(result.errors);
    EXPECT_EQ(calls.without_stop, kBlocks);
    // One place, and the ring may have been full.
    EXPECT_GE(calls.trapped, 1);
    EXPECT_LT(calls.trapped, kBlocks / 100);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(InlineEngine, LooksAtEachCallWhereThatIsAskedFor) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--check"}, std::vector<std::string>{"--track", "heap,mmap"}}) {
        Fixture fixture("big_live", {"100"});
        std::vector<std::string> arguments{"--engine", "inline", "-F", "json", "-e", "1000"};
        arguments.insert(arguments.end(), options.begin(), options.end());
        arguments.push_back(std::to_string(fixture.pid()));
        Memleax memleax(arguments);
        EXPECT_THAT(memleax.wait_until_watching(), HasSubstr("engine int3"));
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_THAT(result.errors, HasSubstr("engine int3: --check and --track look at each call"));
        expect_truth(result.json(), answer);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
