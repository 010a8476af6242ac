// SPDX-License-Identifier: GPL-3.0-or-later
// Chains of holders, and retained sizes, compared with their definitions.
#include "memleax/analysis/holders.hpp"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heap_graph_support.hpp"
#include "memleax/analysis/reachability.hpp"

namespace memleax {
namespace {

using Example = GraphWithRoots;

/// `links` of each block; `holds` of each group. Block n has 10 + n bytes.
Example make(const std::vector<std::vector<std::uint32_t>>& links,
             const std::vector<std::vector<std::uint32_t>>& holds,
             std::set<std::uint32_t> last = {}) {
    Example example;
    for (std::uint32_t i = 0; i < links.size(); ++i) {
        example.graph.blocks.push_back({RemoteAddr(0x1000 + 64 * i), 10 + i});
        example.graph.links.begin_block();
        for (const std::uint32_t to : links[i]) {
            example.graph.links.add({to, false});
        }
    }
    example.graph.links.finish(links.size());
    for (std::uint32_t group = 0; group < holds.size(); ++group) {
        example.roots.last.push_back(last.contains(group));
        for (const std::uint32_t block : holds[group]) {
            example.graph.roots.emplace_back(block, false);
            example.roots.groups.push_back(group);
        }
    }
    example.roots.count = holds.size();
    return example;
}

std::vector<std::uint32_t> leaders_of(const Example& example) {
    std::vector<std::uint32_t> leaders;
    const auto classes = classify(example.graph, example.roots).classes;
    for (std::uint32_t i = 0; i < classes.size(); ++i) {
        if (classes[i] == LossClass::definite) {
            leaders.push_back(i);
        }
    }
    return leaders;
}

/// "g0 2 3": from the group on.
std::string chain(const HolderChains& chains, const RootGroups& roots, std::uint32_t block) {
    std::string text = std::to_string(block);
    for (std::uint32_t at = block;;) {
        const auto step = chains.holder_of(at);
        if (!step) {
            return text;
        }
        if (!step->block) {
            return "g" + std::to_string(roots.groups[step->pointer]) + " " + text;
        }
        at = *step->block;
        text = std::to_string(at) + " " + text;
    }
}

TEST(HolderChainsTest, TheShortestOne) {
    const auto example = make({{1, 2}, {3}, {}, {4}, {}}, {{0}, {3}});
    const HolderChains chains(example.graph, example.roots, {});
    EXPECT_EQ(chain(chains, example.roots, 2), "g0 0 2");
    EXPECT_EQ(chain(chains, example.roots, 4), "g1 3 4");
    EXPECT_EQ(classify(example.graph, example.roots).groups,
              (LargeVector<std::uint32_t>{0, 0, 0, 1, 1}));
}

TEST(HolderChainsTest, StacksComeLast) {
    const auto example = make({{1}, {2}, {}, {}}, {{2, 3}, {0}}, {0});
    const HolderChains chains(example.graph, example.roots, {});
    EXPECT_EQ(chain(chains, example.roots, 2), "g1 0 1 2")
        << "by the variable, though it is longer";
    EXPECT_EQ(chain(chains, example.roots, 3), "g0 3");
}

TEST(HolderChainsTest, LostBlocksAreHeldByTheirLeader) {
    const auto example = make({{1}, {2}, {0}, {}}, {{3}});
    const HolderChains chains(example.graph, example.roots, leaders_of(example));
    EXPECT_EQ(chain(chains, example.roots, 2), "0 1 2");
    EXPECT_EQ(classify(example.graph, example.roots).groups,
              (LargeVector<std::uint32_t>{kNoGroup, kNoGroup, kNoGroup, 0}));
}

TEST(HolderChainsTest, References) {
    const auto example = make({{1}, {1}, {0, 1}}, {{1}, {0, 1}});
    const References found = references_to(example.graph, 1);
    ASSERT_EQ(found.links.size(), 3U);
    EXPECT_EQ(found.links[0].block, 0U);
    EXPECT_EQ(found.links[1].block, 1U);
    EXPECT_EQ(found.links[2].block, 2U);
    EXPECT_EQ(found.links[2].link, 3U);
    EXPECT_EQ(found.roots, (std::vector<std::uint32_t>{0, 2}));
}

TEST(RetainedSizesTest, AListGoesWithItsHead) {
    const auto example = make({{1}, {2}, {}}, {{0}});
    const RetainedSizes sizes = retained_sizes(example.graph, example.roots, {});
    EXPECT_EQ(sizes.of_group[0], (BlockCount{3, 33}));
    EXPECT_EQ(sizes.of_block[0], (BlockCount{3, 33}));
    EXPECT_EQ(sizes.of_block[2], (BlockCount{1, 12}));
}

TEST(RetainedSizesTest, WhatTwoHoldIsNeithers) {
    const auto example = make({{2}, {2}, {}}, {{0}, {1}});
    const RetainedSizes sizes = retained_sizes(example.graph, example.roots, {});
    EXPECT_EQ(sizes.of_group[0], (BlockCount{1, 10}));
    EXPECT_EQ(sizes.of_group[1], (BlockCount{1, 11}));
    EXPECT_EQ(sizes.of_block[2], (BlockCount{1, 12}));
}

TEST(HeldByGroupsTest, WhatALostBlockPointsToIsNobodysAlone) {
    const auto example = make({{1}, {}, {1}}, {{0}}); // 2 is lost, and points to 1
    const Reachability reached = classify(example.graph, example.roots);
    EXPECT_EQ(held_by_groups(example.graph, example.roots, reached),
              (std::vector<BlockCount>{{1, 10}}));
}

/// What can be reached, with a group or a block (of count + number) left out.
std::set<std::uint32_t> reachable_without(const Example& example,
                                          const std::vector<std::uint32_t>& leaders,
                                          std::uint32_t without) {
    const auto groups = static_cast<std::uint32_t>(example.roots.count);
    std::set<std::uint32_t> found;
    std::vector<std::uint32_t> to_follow;
    const auto reach = [&](std::uint32_t block) {
        if (groups + block != without && found.insert(block).second) {
            to_follow.push_back(block);
        }
    };
    for (const std::uint32_t leader : leaders) {
        reach(leader);
    }
    for (std::size_t i = 0; i < example.graph.roots.size(); ++i) {
        if (example.roots.groups[i] != without) {
            reach(example.graph.roots[i].block());
        }
    }
    while (!to_follow.empty()) {
        const std::uint32_t block = to_follow.back();
        to_follow.pop_back();
        for (const BlockLink link : example.graph.links.of(block)) {
            reach(link.block());
        }
    }
    return found;
}

TEST(RetainedSizesTest, RandomGraphsAgreeWithTheDefinition) {
    std::mt19937 random(18);
    for (int round = 0; round < 2000; ++round) {
        const GraphShape shape = kGraphShapes[round % kGraphShapes.size()];
        const Example example = RandomGraph(random, shape, 14).build(4);
        const auto groups = static_cast<std::uint32_t>(example.roots.count);
        const auto leaders = leaders_of(example);
        const RetainedSizes sizes = retained_sizes(example.graph, example.roots, leaders);
        const auto all = reachable_without(example, leaders, 0xffffffff);
        for (std::uint32_t node = 0; node < groups + example.graph.blocks.size(); ++node) {
            BlockCount expected;
            const auto rest = reachable_without(example, leaders, node);
            for (const std::uint32_t block : all) {
                if (!rest.contains(block)) {
                    expected.add(example.graph.blocks[block].size);
                }
            }
            EXPECT_EQ(node < groups ? sizes.of_group[node] : sizes.of_block[node - groups],
                      expected)
                << "round " << round << ", node " << node;
        }
    }
}

TEST(HeldByGroupsTest, WhatAGroupDominatesIsItsAlone) {
    std::mt19937 random(20);
    for (int round = 0; round < 4000; ++round) {
        const GraphShape shape = kGraphShapes[round % kGraphShapes.size()];
        const Example example = RandomGraph(random, shape, 60).build(5);
        const Reachability reached = classify(example.graph, example.roots);
        ASSERT_EQ(held_by_groups(example.graph, example.roots, reached),
                  retained_sizes(example.graph, example.roots, leaders_of(example)).of_group)
            << "round " << round;
    }
}

TEST(HolderChainsTest, EndAtTheGroupThatHoldsTheBlock) {
    std::mt19937 random(21);
    for (int round = 0; round < 500; ++round) {
        const GraphShape shape = kGraphShapes[round % kGraphShapes.size()];
        const Example example = RandomGraph(random, shape, 40).build(4);
        const Reachability reached = classify(example.graph, example.roots);
        const HolderChains chains(example.graph, example.roots, leaders_of(example));
        for (std::uint32_t block = 0; block < example.graph.blocks.size(); ++block) {
            std::uint32_t at = block;
            auto step = chains.holder_of(at);
            for (; step && step->block; step = chains.holder_of(at)) {
                ASSERT_EQ(example.graph.links[step->pointer].block(), at);
                at = *step->block;
            }
            const std::uint32_t group = step ? example.roots.groups[step->pointer] : kNoGroup;
            ASSERT_EQ(group, reached.groups[block]) << "round " << round << ", block " << block;
        }
    }
}

} // namespace
} // namespace memleax
