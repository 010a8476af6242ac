// SPDX-License-Identifier: GPL-3.0-or-later
// Rates over the time that makes them easy to read.
#include "memleax/report/growth_text.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr double kMiB = 1024 * 1024;
constexpr double kHour = 3600;
constexpr double kDay = 24 * kHour;

TEST(GrowthText, BytesOverTheShortestTimeThatMakesAMebibyte) {
    EXPECT_EQ(growth_text(2 * kMiB, 9, GrowthStyle::sentence), "2.0 MiB a second");
    EXPECT_EQ(growth_text(5.25 * kMiB / kHour, 9, GrowthStyle::sentence), "5.2 MiB an hour");
    EXPECT_EQ(growth_text(3 * kMiB / kDay, 9, GrowthStyle::sentence), "3.0 MiB a day");
    EXPECT_EQ(growth_text(100 / kDay, 9, GrowthStyle::sentence), "100 B a day");
    EXPECT_EQ(growth_text(2 * kMiB, 9, GrowthStyle::column), "2.0 MiB/s");
    EXPECT_EQ(growth_text(5.25 * kMiB / kHour, 9, GrowthStyle::column), "5.2 MiB/h");
    EXPECT_EQ(growth_text(3 * kMiB / kDay, 9, GrowthStyle::column), "3.0 MiB/d");
}

TEST(GrowthText, BlocksOfWhatHasNoBytes) {
    EXPECT_EQ(growth_text(0, 3, GrowthStyle::sentence), "3 blocks a second");
    EXPECT_EQ(growth_text(0, 1 / kHour, GrowthStyle::sentence), "1 block an hour");
    EXPECT_EQ(growth_text(0, 0.5 / kDay, GrowthStyle::sentence), "less than 1 block a day");
    EXPECT_EQ(growth_text(0, 36 / kHour, GrowthStyle::column), "36/h");
    EXPECT_EQ(growth_text(0, 0.5 / kDay, GrowthStyle::column), "<1/d");
}

TEST(GrowthText, NothingIfNothingStays) {
    EXPECT_EQ(growth_text(0, 0, GrowthStyle::sentence), "");
    EXPECT_EQ(growth_text(Judgement{}), "");
}

} // namespace
} // namespace memleax
