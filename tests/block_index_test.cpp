// SPDX-License-Identifier: GPL-3.0-or-later
// Which block does a word point to?
#include "../src/heap/block_index.hpp"

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

TEST(BlockIndexTest, NoBlocks) {
    const BlockIndex index({});
    EXPECT_EQ(index.find(0), std::nullopt);
    EXPECT_EQ(index.find(~0ULL), std::nullopt);
}

TEST(BlockIndexTest, BeginsInteriorsHeadersAndEnds) {
    // Chunks of 32 and 48 bytes side by side, a gap, one more.
    const std::vector<HeapBlock> blocks{
        {RemoteAddr(0x1010), 24}, {RemoteAddr(0x1030), 40}, {RemoteAddr(0x5010), 24}};
    const BlockIndex index(blocks);
    EXPECT_EQ(index.find(0x1010), BlockLink(0, false));
    EXPECT_EQ(index.find(0x1011), BlockLink(0, true));
    EXPECT_EQ(index.find(0x1018), BlockLink(0, true));
    EXPECT_EQ(index.find(0x1020), std::nullopt) << "the header of the next chunk";
    EXPECT_EQ(index.find(0x1020, BlockIndex::LastWord::is_block), BlockLink(0, true));
    EXPECT_EQ(index.find(0x1028), BlockLink(0, true)) << "its end";
    EXPECT_EQ(index.find(0x1029), std::nullopt) << "behind that";
    EXPECT_EQ(index.find(0x1030), BlockLink(1, false));
    EXPECT_EQ(index.find(0x1048), BlockLink(1, true));
    EXPECT_EQ(index.find(0x1050), std::nullopt);
    EXPECT_EQ(index.find(0x3000), std::nullopt);
    EXPECT_EQ(index.find(0x5010), BlockLink(2, false));
    EXPECT_EQ(index.find(0x100f), std::nullopt);
    EXPECT_EQ(index.find(0x5028), BlockLink(2, true));
    EXPECT_EQ(index.find(0x5029), std::nullopt);
}

TEST(BlockIndexTest, AMappingOfItsOwnHasNoFollower) {
    const std::vector<HeapBlock> blocks{{RemoteAddr(0x100010), (4U << 20) - 16}};
    const BlockIndex index(blocks);
    EXPECT_EQ(index.find(0x100010), BlockLink(0, false));
    EXPECT_EQ(index.find(0x4ffff8), BlockLink(0, true));
    EXPECT_EQ(index.find(0x500000), std::nullopt);
}

// musl's: sizes are those asked for, and no header is pointed to.
TEST(BlockIndexTest, WithNothingBehindTheEndOfEachBlockBelongsToIt) {
    const std::vector<HeapBlock> blocks{{RemoteAddr(0x1000), 24},
                                        {RemoteAddr(0x1030), 32},
                                        {RemoteAddr(0x1060), 0},
                                        {RemoteAddr(0x1400), 0}};
    const BlockIndex index(blocks, BlockIndex::Behind::nothing);
    EXPECT_EQ(index.find(0x1010), BlockLink(0, true)); // would be the next one's header in glibc
    EXPECT_EQ(index.find(0x1018), BlockLink(0, true));
    EXPECT_EQ(index.find(0x1019), std::nullopt);
    EXPECT_EQ(index.find(0x1050), BlockLink(1, true));
    EXPECT_EQ(index.find(0x1060), BlockLink(2, false));
    EXPECT_EQ(index.find(0x1061), std::nullopt);
    EXPECT_EQ(index.find(0x1400), BlockLink(3, false));
    EXPECT_EQ(index.find(0x1401), std::nullopt);
}

// Against the plainest way to look.
TEST(BlockIndexTest, AgreesWithALinearSearch) {
    std::mt19937_64 random(18);
    for (int round = 0; round < 20; ++round) {
        std::vector<HeapBlock> blocks;
        std::uint64_t at = 0x7f0000000010;
        for (int i = 0; i < 300; ++i) {
            const bool is_large = random() % 50 == 0;
            const std::uint64_t chunk = (is_large ? 3U << 20 : 32) + random() % 40 * 16;
            blocks.push_back({RemoteAddr(at), chunk - 8});
            at += chunk + (random() % 4 == 0 ? random() % 100 * 16 : 0) +
                  (random() % 60 == 0 ? 64U << 20 : 0);
        }
        const BlockIndex index(blocks);
        for (int i = 0; i < 3000; ++i) {
            const HeapBlock& near = blocks[random() % blocks.size()];
            const std::uint64_t word = near.address.value() - 64 + random() % (near.size + 128);
            std::optional<BlockLink> expected;
            for (std::uint32_t n = 0; n < blocks.size(); ++n) {
                const std::uint64_t into = word - blocks[n].address.value();
                if (into <= blocks[n].size && into != blocks[n].size - 8) {
                    expected = BlockLink(n, into != 0);
                }
            }
            ASSERT_EQ(index.find(word), expected) << word;
        }
    }
}

TEST(BlockIndexTest, WhatASizeClassHasMoreThanWasAskedForIsOfTheBlock) {
    const std::vector<HeapBlock> blocks{{RemoteAddr(0x1000), 5},    {RemoteAddr(0x1008), 8},
                                        {RemoteAddr(0x1020), 40},   {RemoteAddr(0x2000), 900},
                                        {RemoteAddr(0x9000), 0},    {RemoteAddr(0x9010), 33000},
                                        {RemoteAddr(0x11200), 100}, {RemoteAddr(0x800000), 5000}};
    const BlockIndex index(blocks, BlockIndex::Behind::spare);
    EXPECT_EQ(index.find(0x1007), BlockLink(0, true));
    EXPECT_EQ(index.find(0x1008), BlockLink(1, false)) << "the next one begins there";
    EXPECT_EQ(index.find_end_at(BlockLink(1, false)), std::nullopt) << "the one before is shorter";
    EXPECT_EQ(index.find(0x1010), BlockLink(1, true)) << "its end";
    EXPECT_EQ(index.find(0x1011), std::nullopt);
    EXPECT_EQ(index.find(0x1050), BlockLink(2, true)) << "48 bytes";
    EXPECT_EQ(index.find(0x1051), std::nullopt);
    EXPECT_EQ(index.find(0x2400), BlockLink(3, true)) << "1,024 bytes";
    EXPECT_EQ(index.find(0x2401), std::nullopt);
    EXPECT_EQ(index.find(0x9000), BlockLink(4, false));
    EXPECT_EQ(index.find(0x9001), std::nullopt) << "no byte was asked for";
    EXPECT_EQ(index.find(0x111ff), BlockLink(5, true)) << "of 40,960 bytes, up to the next block";
    EXPECT_EQ(index.find(0x11200), BlockLink(6, false));
    EXPECT_EQ(index.find(0x801400), BlockLink(7, true)) << "5,120 bytes, in a region of its own";
    EXPECT_EQ(index.find(0x801401), std::nullopt);
}

TEST(BlockIndexTest, WhereABlockEndsAnotherMayBegin) {
    const std::vector<HeapBlock> blocks{
        {RemoteAddr(0x1000), 16}, {RemoteAddr(0x1010), 16}, {RemoteAddr(0x1030), 16}};
    const BlockIndex index(blocks, BlockIndex::Behind::spare);
    EXPECT_EQ(index.find(0x1010), BlockLink(1, false));
    EXPECT_EQ(index.find_end_at(BlockLink(1, false)), BlockLink(0, true));
    EXPECT_EQ(index.find_end_at(BlockLink(1, true)), std::nullopt) << "that is no pointer there";
    EXPECT_EQ(index.find_end_at(BlockLink(0, false)), std::nullopt);
    EXPECT_EQ(index.find_end_at(BlockLink(2, false)), std::nullopt) << "there is a gap";
    const BlockIndex others(blocks, BlockIndex::Behind::nothing);
    EXPECT_EQ(others.find_end_at(BlockLink(1, false)), std::nullopt);
}

// What a user's allocator gives may begin anywhere.
TEST(BlockIndexTest, AgreesWithALinearSearchWhereverBlocksBegin) {
    std::mt19937_64 random(18);
    for (int round = 0; round < 20; ++round) {
        const std::uint64_t alignment = 1ULL << round % 5;
        std::vector<HeapBlock> blocks;
        std::uint64_t at = 0x7f0000000000 + random() % 16 / alignment * alignment;
        for (int i = 0; i < 300; ++i) {
            const std::uint64_t size = 1 + random() % (random() % 40 == 0 ? 3U << 20 : 100);
            blocks.push_back({RemoteAddr(at), size});
            at += size + (random() % 60 == 0 ? 64U << 20 : random() % 32);
            at = (at + alignment - 1) / alignment * alignment;
        }
        const BlockIndex index(blocks, BlockIndex::Behind::nothing);
        for (int i = 0; i < 3000; ++i) {
            const HeapBlock& near = blocks[random() % blocks.size()];
            const std::uint64_t word = near.address.value() - 20 + random() % (near.size + 40);
            std::optional<BlockLink> expected;
            for (std::uint32_t n = 0; n < blocks.size(); ++n) {
                const std::uint64_t into = word - blocks[n].address.value();
                if (into <= blocks[n].size) { // a begin comes after the end of the one before
                    expected = BlockLink(n, into != 0);
                }
            }
            ASSERT_EQ(index.find(word), expected) << word;
        }
    }
}

} // namespace
} // namespace memleax
