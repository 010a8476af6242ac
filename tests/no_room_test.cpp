// SPDX-License-Identifier: GPL-3.0-or-later
// A target in which nothing can be mapped any more: what cannot be watched is told of once, and
// counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

constexpr const char* kWarning = "cannot map a page";

std::size_t occurrences(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++count;
    }
    return count;
}

TEST(NoRoom, ForSlotsIsToldOnceAndTheCallsAreCounted) {
    Fixture fixture("many_sites");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"--engine", "int3", "-F", "json", "--check", "-e", "1000",
                     std::to_string(fixture.pid())}); // which needs a slot for each call site
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(occurrences(result.errors, kWarning), 1U) << result.errors;

    const auto report = result.json();
    expect_truth(report, answer);
    EXPECT_THAT(report.at("errors"), IsEmpty());
    const auto& events = report.at("session").at("events");
    EXPECT_EQ(events.at("unfollowed_alloc"), answer.counts.at("sites"));
    EXPECT_EQ(events.at("unknown_free"), answer.counts.at("sites"));
    EXPECT_EQ(std::ssize(report.at("unfollowed")), answer.counts.at("sites"));
    std::int64_t bytes = 0;
    for (const auto& stack : report.at("unfollowed")) {
        EXPECT_EQ(stack.at("calls"), 1);
        EXPECT_EQ(stack.at("reason"), "no_breakpoint");
        EXPECT_EQ(allocating_function(stack), "allocate_everywhere");
        bytes += stack.at("bytes").get<std::int64_t>();
    }
    EXPECT_EQ(bytes, answer.counts.at("bytes"));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
