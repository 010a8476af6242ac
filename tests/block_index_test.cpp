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

} // namespace
} // namespace memleax
