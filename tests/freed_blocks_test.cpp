// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/freed_blocks.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(FreedBlocks, RemembersUntilItIsAllocatedAnew) {
    FreedBlocks freed(100);
    const RemoteAddr address(0x7f0000001010);
    EXPECT_FALSE(freed.find(address));
    freed.remember(address, StackId(3));
    EXPECT_EQ(freed.find(address), StackId(3));
    freed.remember(address, StackId(4)); // allocated and freed again, unseen
    EXPECT_EQ(freed.find(address), StackId(4));
    freed.forget(address);
    EXPECT_FALSE(freed.find(address));
    freed.forget(address);
}

TEST(FreedBlocks, ForgetsTheOldestOfASet) {
    FreedBlocks freed(1); // two sets of five
    constexpr std::uint64_t count = 1000;
    for (std::uint64_t i = 1; i <= count; ++i) {
        freed.remember(RemoteAddr(i * 16), StackId(static_cast<std::uint32_t>(i)));
    }
    std::uint64_t known = 0;
    for (std::uint64_t i = 1; i <= count; ++i) {
        if (const auto stack = freed.find(RemoteAddr(i * 16))) {
            EXPECT_EQ(*stack, StackId(static_cast<std::uint32_t>(i)));
            ++known;
        }
    }
    EXPECT_EQ(known, 2 * FreedBlocks::kSlots);
    // The last five are in the last five places of their sets, whichever those are.
    for (std::uint64_t i = count - FreedBlocks::kSlots + 1; i <= count; ++i) {
        EXPECT_TRUE(freed.find(RemoteAddr(i * 16)));
    }
}

TEST(FreedBlocks, ForgettingOneKeepsTheOthers) {
    FreedBlocks freed(1);
    for (std::uint32_t i = 1; i <= 4; ++i) { // they fit, even if all are in one set
        freed.remember(RemoteAddr(i * 32), StackId(i));
    }
    freed.forget(RemoteAddr(64));
    EXPECT_FALSE(freed.find(RemoteAddr(64)));
    for (const std::uint32_t i : {1U, 3U, 4U}) {
        EXPECT_EQ(freed.find(RemoteAddr(i * 32)), StackId(i));
    }
}

/// Of blocks of one size, one behind the other.
class FreedBlocksOfSize : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FreedBlocksOfSize, KnowsNearlyAllOfTheLastHalfMillion) {
    FreedBlocks freed;
    constexpr std::uint64_t count = 4'000'000;
    constexpr std::uint64_t last = 500'000;
    const auto address = [](std::uint64_t i) {
        return RemoteAddr(0x5500'0000'0010 + i * GetParam());
    };
    for (std::uint64_t i = 1; i <= count; ++i) {
        freed.remember(address(i), StackId(1));
    }
    std::uint64_t known = 0;
    for (std::uint64_t i = count - last + 1; i <= count; ++i) {
        known += freed.find(address(i)) ? 1 : 0;
    }
    RecordProperty("known_per_mille", static_cast<int>(known * 1000 / last));
    constexpr std::uint64_t small = 128; // as the header promises
    EXPECT_GE(known, GetParam() <= small ? last : last * 98 / 100);
}
INSTANTIATE_TEST_SUITE_P(Sizes, FreedBlocksOfSize,
                         ::testing::Values(16, 32, 48, 64, 112, 128, 1'024, 1'040, 4'096, 65'536,
                                           1U << 20U, 1U << 24U));

} // namespace
} // namespace memleax
