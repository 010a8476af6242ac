// SPDX-License-Identifier: GPL-3.0-or-later
// Rows of links, in four bytes a block and in eight.
#include "memleax/heap/block_links.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

using Rows = std::vector<std::vector<BlockLink>>;

BlockLinks links_of(const Rows& rows, BlockLinks links = {}) {
    links.reserve(rows.size());
    std::size_t begun = 0;
    for (const auto& row : rows) {
        EXPECT_EQ(links.begun(), begun++);
        links.begin_block();
        for (const BlockLink link : row) {
            links.add(link);
        }
    }
    links.finish(rows.size());
    return links;
}

Rows rows_of(const BlockLinks& links, std::uint32_t blocks) {
    Rows rows;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const auto row = links.of(i);
        rows.emplace_back(row.begin(), row.end());
    }
    return rows;
}

TEST(BlockLinksTest, AreThoseOfEachBlock) {
    const Rows rows{{}, {{1, false}, {2, true}}, {}, {{0, false}}, {}};
    const BlockLinks links = links_of(rows);
    EXPECT_EQ(rows_of(links, 5), rows);
    EXPECT_EQ(links.size(), 3U);
    EXPECT_EQ(links.first(1), 0U);
    EXPECT_EQ(links.first(3), 2U);
    EXPECT_EQ(links.first(5), 3U);
    EXPECT_EQ(links[1], BlockLink(2, true));
    EXPECT_EQ(links.block_of(0), 1U);
    EXPECT_EQ(links.block_of(1), 1U);
    EXPECT_EQ(links.block_of(2), 3U);
}

TEST(BlockLinksTest, WhatHasNotBegunHasNone) {
    BlockLinks links;
    links.begin_block();
    links.add({2, false});
    links.finish(3);
    EXPECT_EQ(rows_of(links, 3), (Rows{{{2, false}}, {}, {}}));
    BlockLinks nothing;
    nothing.finish(0);
    EXPECT_EQ(nothing.size(), 0U);
}

TEST(BlockLinksTest, MoreThanFourBytesCanCount) {
    std::mt19937 random(18);
    for (std::uint64_t most = 0; most < 40; ++most) {
        Rows rows(12);
        for (unsigned i = 0; i < 30; ++i) {
            rows[random() % rows.size()].emplace_back(random() % 12, random() % 2 == 0);
        }
        const BlockLinks narrow = links_of(rows);
        const BlockLinks wide = links_of(rows, BlockLinks(most)); // from some block on, mostly
        EXPECT_EQ(rows_of(wide, 12), rows) << most;
        for (std::uint32_t link = 0; link < wide.size(); ++link) {
            EXPECT_EQ(wide.block_of(link), narrow.block_of(link)) << most << ", " << link;
        }
    }
}

} // namespace
} // namespace memleax
