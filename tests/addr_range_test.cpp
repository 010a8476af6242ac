// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include "memleax/base/types.hpp"

namespace memleax {
namespace {

constexpr AddrRange kRange{0x1000, 0x3000};

TEST(AddrRange, ContainsItsBeginAndNotItsEnd) {
    EXPECT_FALSE(kRange.contains(RemoteAddr(0xfff)));
    EXPECT_TRUE(kRange.contains(RemoteAddr(0x1000)));
    EXPECT_TRUE(kRange.contains(CodeAddr(0x2fff)));
    EXPECT_FALSE(kRange.contains(CodeAddr(0x3000)));
    EXPECT_FALSE(AddrRange{}.contains(RemoteAddr(0)));
}

TEST(AddrRange, FromAnAddressAndASize) {
    EXPECT_EQ(AddrRange::at(RemoteAddr(0x1000), 0x2000), kRange);
    EXPECT_EQ(AddrRange::at(CodeAddr(0x1000), 0x2000), kRange);
    EXPECT_EQ(kRange.start(), RemoteAddr(0x1000));
    EXPECT_EQ(kRange.size(), 0x2000U);
}

TEST(AddrRange, NeighboursDoNotOverlap) {
    const AddrRange before{0, 0x1000};
    const AddrRange behind{0x3000, 0x4000};
    for (const AddrRange& other : {before, behind}) {
        EXPECT_FALSE(kRange.overlaps(other));
        EXPECT_FALSE(other.overlaps(kRange));
        EXPECT_TRUE(kRange.common_with(other).empty());
    }
    for (const AddrRange other : {AddrRange{0, 0x1001}, AddrRange{0x2fff, 0x4000},
                                  AddrRange{0x2000, 0x2001}, AddrRange{0, 0x4000}, kRange}) {
        EXPECT_TRUE(kRange.overlaps(other));
        EXPECT_TRUE(other.overlaps(kRange));
        EXPECT_FALSE(kRange.common_with(other).empty());
    }
}

TEST(AddrRange, CommonAndJoined) {
    const AddrRange other{0x2000, 0x5000};
    EXPECT_EQ(kRange.common_with(other), (AddrRange{0x2000, 0x3000}));
    EXPECT_EQ(other.common_with(kRange), (AddrRange{0x2000, 0x3000}));
    EXPECT_EQ(kRange.joined_with(other), (AddrRange{0x1000, 0x5000}));
    EXPECT_EQ(other.joined_with(kRange), (AddrRange{0x1000, 0x5000}));
    EXPECT_EQ(kRange.joined_with({0x1800, 0x2000}), kRange);
}

TEST(AddrRange, WithoutBytesItIsEmpty) {
    EXPECT_TRUE(AddrRange{}.empty());
    EXPECT_TRUE((AddrRange{2, 2}).empty());
    EXPECT_TRUE((AddrRange{3, 2}).empty());
    EXPECT_FALSE(kRange.empty());
}

} // namespace
} // namespace memleax
