// SPDX-License-Identifier: GPL-3.0-or-later
// Do the blocks that are watched explain how the process grows?
#include "memleax/report/coverage.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
using Samples = std::vector<Report::MemorySample>;

TEST(Coverage, SaysWhatToTryWhereMostIsNotExplained) {
    const auto coverage =
        coverage_of(Samples{{0, 0, 10 * kMiB}, {60, 11 * 1024, 34 * kMiB}}, std::nullopt);
    ASSERT_TRUE(coverage);
    EXPECT_TRUE(coverage->is_gap);
    EXPECT_EQ(coverage->text(), "RSS +24.0 MiB, watched blocks +11.0 KiB: try --track heap,mmap");
    const auto tracked = coverage_of(Samples{{0, 0, 10 * kMiB}, {60, 0, 34 * kMiB}}, kMiB);
    EXPECT_TRUE(tracked->is_gap);
    EXPECT_EQ(tracked->text(), "RSS +24.0 MiB, watched memory +1.0 MiB: the rest was there before, "
                               "or was mapped unseen");
}

TEST(Coverage, IsNoGapWhereBlocksExplainIt) {
    const auto explained =
        coverage_of(Samples{{0, 0, 10 * kMiB}, {60, 20 * kMiB, 34 * kMiB}}, std::nullopt);
    EXPECT_FALSE(explained->is_gap);
    EXPECT_EQ(explained->text(), "RSS +24.0 MiB, watched blocks +20.0 MiB");
    EXPECT_FALSE(coverage_of(Samples{{0, 0, 10 * kMiB}, {60, 0, 34 * kMiB}}, 20 * kMiB)->is_gap);
    // What was freed may stay with the allocator.
    EXPECT_FALSE(
        coverage_of(Samples{{0, 0, kMiB}, {1, 20 * kMiB, kMiB}, {2, 0, 21 * kMiB}}, std::nullopt)
            ->is_gap);
}

TEST(Coverage, LittleGrowthIsNoGap) {
    EXPECT_FALSE(coverage_of(Samples{{0, 0, 10 * kMiB}, {9, 0, 13 * kMiB}}, std::nullopt)->is_gap);
    const auto shrunk = coverage_of(Samples{{0, 0, 10 * kMiB}, {9, 0, 9 * kMiB}}, std::nullopt);
    EXPECT_FALSE(shrunk->is_gap);
    EXPECT_EQ(shrunk->text(), "RSS -1.0 MiB, watched blocks +0 B");
}

TEST(Coverage, SamplesThatCouldNotBeReadAreNone) {
    EXPECT_FALSE(coverage_of(Samples{}, std::nullopt));
    EXPECT_FALSE(coverage_of(Samples{{0, 9, 0}}, std::nullopt));
    EXPECT_EQ(
        coverage_of(Samples{{0, 0, 0}, {1, 0, 2 * kMiB}, {2, 0, 3 * kMiB}, {3, 0, 0}}, std::nullopt)
            ->rss_growth,
        static_cast<std::int64_t>(kMiB));
}

TEST(Coverage, StandsInTheTextReportIfThereIsAGap) {
    Report report = sample_report();
    report.memory = {{0, 0, 10 * kMiB}, {60, 11 * 1024, 34 * kMiB}};
    const std::string line = "== RSS +24.0 MiB, watched blocks +11.0 KiB: try --track heap,mmap.\n";
    EXPECT_NE(text_of(write_text, report).find(line), std::string::npos);
    report.memory.back().live_bytes = 24 * kMiB;
    EXPECT_EQ(text_of(write_text, report).find("== RSS"), std::string::npos);
}

} // namespace
} // namespace memleax
