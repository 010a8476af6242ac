// SPDX-License-Identifier: GPL-3.0-or-later
// Graphs as lists of links: what can be reached, and what is lost by what.
#include "memleax/analysis/reachability.hpp"

#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

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
        graph.first_link.push_back(graph.links.size());
        for (const Link& link : links) {
            if (link.from == i) {
                graph.links.emplace_back(link.to, link.interior);
            }
        }
    }
    graph.first_link.push_back(graph.links.size());
    return graph;
}

/// A letter for each block: d, i, p, r.
std::string classes_of(const HeapGraph& graph) {
    std::string result;
    for (const LossClass each : classify(graph).classes) {
        result += "dipr"[static_cast<std::size_t>(each)];
    }
    return result;
}

std::string classes_of(std::uint32_t blocks, const std::vector<Link>& links,
                       const std::vector<BlockLink>& roots = {}) {
    return classes_of(graph_of(blocks, links, roots));
}

TEST(ReachabilityTest, Nothing) {
    EXPECT_EQ(classes_of(0, {}), "");
    EXPECT_EQ(classes_of(HeapGraph{}), "");
}

TEST(ReachabilityTest, Alone) {
    EXPECT_EQ(classes_of(3, {}, {{0, false}, {1, true}}), "rpd");
    EXPECT_EQ(classes_of(1, {}, {{0, true}, {0, false}}), "r") << "the better pointer counts";
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
    const Reachability result =
        classify(graph_of(6, {{0, 1}, {2, 3}, {2, 4}}, {{0, false}, {5, true}}));
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
        for (auto link = graph.first_link[i]; link < graph.first_link[i + 1]; ++link) {
            any[i][graph.links[link].block()] = true;
            if (!graph.links[link].is_interior()) {
                sound[i][graph.links[link].block()] = true;
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
        const std::uint32_t blocks = 1 + random() % 12;
        std::vector<Link> links;
        for (unsigned i = random() % 20; i > 0; --i) {
            links.push_back({static_cast<std::uint32_t>(random() % blocks),
                             static_cast<std::uint32_t>(random() % blocks), random() % 3 == 0});
        }
        std::vector<BlockLink> roots;
        for (unsigned i = random() % 3; i > 0; --i) {
            roots.emplace_back(static_cast<std::uint32_t>(random() % blocks), random() % 3 == 0);
        }
        const HeapGraph graph = graph_of(blocks, links, roots);
        ASSERT_EQ(classes_of(graph), by_definition(graph)) << "round " << round;
    }
}

} // namespace
} // namespace memleax
