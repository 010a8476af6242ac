// SPDX-License-Identifier: GPL-3.0-or-later
// Possibly lost blocks that have something in common, and those that have not.
#include "memleax/analysis/common_offset.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

/// So many blocks that are possibly lost, before as many that are reachable.
struct CommonOffsetTest : testing::Test {
    void make(std::uint32_t possible) {
        for (std::uint32_t i = 0; i < 2 * possible; ++i) {
            graph.blocks.push_back({RemoteAddr(0x1000 + 64 * i), 48});
            reached.classes.push_back(i < possible ? LossClass::possible : LossClass::reachable);
        }
        reached.totals[static_cast<std::size_t>(LossClass::possible)].blocks = possible;
        graph.details.pointer_offsets.resize(graph.blocks.size());
    }
    void point(std::uint32_t begin, std::uint32_t end, std::uint64_t offset) {
        for (std::uint32_t i = begin; i < end; ++i) {
            graph.details.pointer_offsets.add(i, offset);
        }
    }
    [[nodiscard]] std::optional<CommonOffset> found() const {
        return common_offset(graph, reached);
    }

    HeapGraph graph;
    Reachability reached;
};

TEST_F(CommonOffsetTest, IsThatOfNineInTen) {
    make(200);
    point(0, 179, 24);
    EXPECT_EQ(found(), std::nullopt);
    point(179, 180, 24);
    point(100, 200, 16); // others, and some that have both
    EXPECT_EQ(found(), (CommonOffset{24, 180}));
    point(0, 100, 16);
    EXPECT_EQ(found(), (CommonOffset{16, 200}));
}

TEST_F(CommonOffsetTest, EachWordOfAHeader) {
    for (const std::uint64_t offset : {8, 16, 24, 32, 40, 48, 56, 64}) {
        graph = {};
        reached = {};
        make(100);
        point(0, 100, offset);
        EXPECT_EQ(found(), (CommonOffset{offset, 100}));
    }
}

TEST_F(CommonOffsetTest, OfFewBlocksNothingIsSaid) {
    make(99);
    point(0, 99, 16);
    EXPECT_EQ(found(), std::nullopt);
}

TEST_F(CommonOffsetTest, ReachableBlocksDoNotCount) {
    make(100);
    point(100, 200, 16);
    EXPECT_EQ(found(), std::nullopt);
}

TEST_F(CommonOffsetTest, NoHeaderIsThatLargeOrEndsWithinAWord) {
    make(100);
    point(0, 100, 72);
    point(0, 100, 12);
    EXPECT_EQ(found(), std::nullopt);
}

TEST_F(CommonOffsetTest, IsNotKnownWhereNobodyHasNotedAny) {
    make(100);
    graph.details = {};
    EXPECT_EQ(found(), std::nullopt);
}

} // namespace
} // namespace memleax
