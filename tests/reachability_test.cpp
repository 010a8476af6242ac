// SPDX-License-Identifier: GPL-3.0-or-later
// Graphs as lists of links: what can be reached, and what is lost by what.
#include "memleax/analysis/reachability.hpp"

#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "heap_graph_support.hpp"

namespace memleax {
namespace {

struct Link {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    bool interior = false;
};

HeapGraph graph_of(std::uint32_t blocks, const std::vector<Link>& links,
                   const std::vector<BlockLink>& roots) {
    HeapGraph graph;
    graph.roots = roots;
    for (std::uint32_t i = 0; i < blocks; ++i) {
        graph.blocks.push_back({RemoteAddr(0x1000 + 64 * i), 10 + i});
        graph.links.begin_block();
        for (const Link& link : links) {
            if (link.from == i) {
                graph.links.add({link.to, link.interior});
            }
        }
    }
    graph.links.finish(blocks);
    return graph;
}

/// All roots are of one variable.
RootGroups one_group(const HeapGraph& graph) {
    return {1, std::vector<std::uint32_t>(graph.roots.size()), {false}};
}

/// A letter for each block: d, i, p, r.
std::string classes_of(const HeapGraph& graph, const RootGroups& roots) {
    std::string result;
    for (const LossClass each : classify(graph, roots).classes) {
        result += "dipr"[static_cast<std::size_t>(each)];
    }
    return result;
}

std::string classes_of(std::uint32_t blocks, const std::vector<Link>& links,
                       const std::vector<BlockLink>& roots = {}) {
    const HeapGraph graph = graph_of(blocks, links, roots);
    return classes_of(graph, one_group(graph));
}

TEST(ReachabilityTest, Nothing) {
    EXPECT_EQ(classes_of(0, {}), "");
    EXPECT_EQ(classes_of(HeapGraph{}, {}), "");
}

TEST(ReachabilityTest, Alone) {
    EXPECT_EQ(classes_of(3, {}, {{0, false}, {1, true}}), "rpd");
    EXPECT_EQ(classes_of(1, {}, {{0, true}, {0, false}}), "r") << "the better pointer counts";
}

// What was not read may point to any of them.
TEST(ReachabilityTest, WithoutSomeRootsNothingIsCertainlyLost) {
    HeapGraph graph = graph_of(4, {{1, 2}}, {{0, false}, {3, true}});
    EXPECT_EQ(classes_of(graph, one_group(graph)), "rdip");
    graph.lacks_roots = true;
    EXPECT_EQ(classes_of(graph, one_group(graph)), "rppp");
}

TEST(ReachabilityTest, Chains) {
    EXPECT_EQ(classes_of(4, {{0, 1}, {1, 2}, {2, 3}}, {{0, false}}), "rrrr");
    EXPECT_EQ(classes_of(4, {{0, 1}, {1, 2}, {2, 3}}), "diii");
    EXPECT_EQ(classes_of(4, {{3, 2}, {2, 1}, {1, 0}}), "iiid") << "the head is last";
    EXPECT_EQ(classes_of(4, {{1, 0}, {1, 3}, {3, 2}}), "idii");
}

TEST(ReachabilityTest, InteriorLinks) {
    EXPECT_EQ(classes_of(3, {{0, 1, true}, {1, 2}}, {{0, false}}), "rpp");
    EXPECT_EQ(classes_of(3, {{0, 1}, {1, 2}}, {{0, true}}), "ppp");
    EXPECT_EQ(classes_of(3, {{0, 2, true}, {1, 2}}, {{0, false}, {1, false}}), "rrr");
    EXPECT_EQ(classes_of(2, {{0, 1, true}}), "di") << "of a lost block";
    // 3 is reached first by a pointer into it; what it leads to is reachable by the longer way.
    EXPECT_EQ(classes_of(6, {{0, 3, true}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, {{0, false}}),
              "rrrrrr");
}

TEST(ReachabilityTest, Cycles) {
    EXPECT_EQ(classes_of(1, {{0, 0}}), "d") << "it points to itself";
    EXPECT_EQ(classes_of(3, {{0, 1}, {1, 2}, {2, 0}}), "dii");
    EXPECT_EQ(classes_of(4, {{0, 1}, {1, 2}, {2, 0}, {3, 1}}), "iiid") << "held by a lost one";
    EXPECT_EQ(classes_of(4, {{1, 2}, {2, 3}, {3, 1}, {0, 1}}), "diii");
    EXPECT_EQ(classes_of(4, {{0, 1}, {1, 0}, {2, 3}, {3, 2}}), "didi");
    EXPECT_EQ(classes_of(4, {{0, 1}, {1, 0}, {2, 3}, {3, 2}, {3, 1}}), "iidi");
    EXPECT_EQ(classes_of(3, {{0, 1}, {1, 2}, {2, 0}}, {{2, false}}), "rrr");
}

TEST(ReachabilityTest, Totals) {
    const HeapGraph graph = graph_of(6, {{0, 1}, {2, 3}, {2, 4}}, {{0, false}, {5, true}});
    const Reachability result = classify(graph, one_group(graph));
    EXPECT_EQ(result.total(LossClass::reachable), (BlockCount{2, 10 + 11}));
    EXPECT_EQ(result.total(LossClass::definite), (BlockCount{1, 12}));
    EXPECT_EQ(result.total(LossClass::indirect), (BlockCount{2, 13 + 14}));
    EXPECT_EQ(result.total(LossClass::possible), (BlockCount{1, 15}));
}

/// By the definition: a pointer chain for each pair of blocks.
std::string by_definition(const HeapGraph& graph) {
    const std::size_t n = graph.blocks.size();
    std::vector<std::vector<bool>> sound(n, std::vector<bool>(n));
    std::vector<std::vector<bool>> any = sound;
    for (std::size_t i = 0; i < n; ++i) {
        sound[i][i] = any[i][i] = true;
        for (const BlockLink link : graph.links.of(static_cast<std::uint32_t>(i))) {
            any[i][link.block()] = true;
            if (!link.is_interior()) {
                sound[i][link.block()] = true;
            }
        }
    }
    for (auto* chains : {&sound, &any}) {
        for (std::size_t k = 0; k < n; ++k) {
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t j = 0; j < n; ++j) {
                    (*chains)[i][j] = (*chains)[i][j] || ((*chains)[i][k] && (*chains)[k][j]);
                }
            }
        }
    }
    std::string result(n, 'd');
    for (std::size_t i = 0; i < n; ++i) {
        for (const BlockLink root : graph.roots) {
            if (!root.is_interior() && sound[root.block()][i]) {
                result[i] = 'r';
            } else if (any[root.block()][i] && result[i] == 'd') {
                result[i] = 'p';
            }
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n && result[i] == 'd'; ++j) {
            const bool is_lost = result[j] == 'd' || result[j] == 'i';
            const bool leads = is_lost && j != i && any[j][i];
            if (leads && (!any[i][j] || j < i)) { // in a cycle the first one is the lost one
                result[i] = 'i';
            }
        }
    }
    return result;
}

TEST(ReachabilityTest, RandomGraphsAgreeWithTheDefinition) {
    std::mt19937 random(18);
    for (int round = 0; round < 3000; ++round) {
        const GraphShape shape = kGraphShapes[round % kGraphShapes.size()];
        const GraphWithRoots it = RandomGraph(random, shape, 14).build(3);
        ASSERT_EQ(classes_of(it.graph, it.roots), by_definition(it.graph)) << "round " << round;
    }
}

/// One block after the other, each with the group that has reached it first.
LargeVector<std::uint32_t> groups_by_queue(const GraphWithRoots& it) {
    LargeVector<std::uint32_t> groups(it.graph.blocks.size(), kNoGroup);
    std::deque<std::uint32_t> queue;
    const auto reach = [&](std::uint32_t block, std::uint32_t group) {
        if (groups[block] == kNoGroup) {
            groups[block] = group;
            queue.push_back(block);
        }
    };
    for (const bool last : {false, true}) {
        for (std::size_t i = 0; i < it.graph.roots.size(); ++i) {
            if (it.roots.last[it.roots.groups[i]] == last) {
                reach(it.graph.roots[i].block(), it.roots.groups[i]);
            }
        }
        for (; !queue.empty(); queue.pop_front()) {
            for (const BlockLink link : it.graph.links.of(queue.front())) {
                reach(link.block(), groups[queue.front()]);
            }
        }
    }
    return groups;
}

TEST(ReachabilityTest, GroupsAreThoseOfTheShortestChains) {
    std::mt19937 random(19);
    for (int round = 0; round < 2000; ++round) {
        const GraphShape shape = kGraphShapes[round % kGraphShapes.size()];
        const GraphWithRoots it = RandomGraph(random, shape, 60).build(5);
        ASSERT_EQ(classify(it.graph, it.roots).groups, groups_by_queue(it)) << "round " << round;
    }
}

} // namespace
} // namespace memleax
