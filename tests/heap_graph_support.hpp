// SPDX-License-Identifier: GPL-3.0-or-later
/// Graphs of a few blocks, in the shapes that programs have and in those that they have rarely.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "memleax/analysis/root_groups.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

struct GraphWithRoots {
    HeapGraph graph;
    RootGroups roots;
};

enum class GraphShape : std::uint8_t {
    any,
    chain,
    back_and_forth, ///< a list whose nodes point both ways
    cycles,
    star, ///< one points to all, and some of them back
    tree, ///< nodes point to their parent as well
    shared_nodes
};
inline constexpr std::array kGraphShapes{
    GraphShape::any,  GraphShape::chain, GraphShape::back_and_forth, GraphShape::cycles,
    GraphShape::star, GraphShape::tree,  GraphShape::shared_nodes};

/// Where each block points to; the blocks of a shape have random numbers. Every third link or so
/// may be to the middle of a block, and some lead anywhere.
class RandomGraph {
  public:
    RandomGraph(std::mt19937& random, GraphShape shape, std::uint32_t most_blocks)
        : random_(random), count_(1 + below(most_blocks)), rows_(count_), names_(count_) {
        for (std::uint32_t i = 0; i < count_; ++i) {
            names_[i] = i;
        }
        std::shuffle(names_.begin(), names_.end(), random_);
        add_shape(shape);
        for (std::uint32_t i = below(shape == GraphShape::any ? 3 * count_ : 3); i > 0; --i) {
            link(below(count_), below(count_));
        }
    }

    /// With up to so many groups of roots, of which some may be such that come last.
    [[nodiscard]] GraphWithRoots build(std::uint32_t most_groups) {
        GraphWithRoots result;
        HeapGraph& graph = result.graph;
        for (std::uint32_t i = 0; i < count_; ++i) {
            graph.blocks.push_back({RemoteAddr(0x1000 + 64 * i), 10 + i});
            graph.links.begin_block();
            for (const BlockLink to : rows_[i]) {
                graph.links.add(to);
            }
        }
        graph.links.finish(count_);
        RootGroups& roots = result.roots;
        roots.count = below(most_groups + 1);
        for (std::size_t i = 0; i < roots.count; ++i) {
            roots.last.push_back(below(3) == 0);
        }
        for (std::uint32_t i = roots.count == 0 ? 0 : below(6); i > 0; --i) {
            graph.roots.emplace_back(below(count_), below(4) == 0);
            roots.groups.push_back(below(static_cast<std::uint32_t>(roots.count)));
        }
        return result;
    }

  private:
    std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
    void link(std::uint32_t from, std::uint32_t to) {
        rows_[names_[from]].emplace_back(names_[to], interior_ && below(3) == 0);
    }
    void add_shape(GraphShape shape) {
        for (std::uint32_t i = 1; i < count_; ++i) {
            switch (shape) {
            case GraphShape::any:
                break;
            case GraphShape::chain:
                link(i - 1, i);
                break;
            case GraphShape::back_and_forth:
                link(i - 1, i);
                link(i, i - 1);
                break;
            case GraphShape::cycles: // of four
                link(i - 1, i % 4 == 0 ? i - 4 : i);
                break;
            case GraphShape::star:
                link(0, i);
                if (below(3) == 0) {
                    link(i, 0);
                }
                break;
            case GraphShape::tree:
                link((i - 1) / 2, i);
                link(i, (i - 1) / 2);
                break;
            case GraphShape::shared_nodes: // rows of three that all point to the next row
                for (std::uint32_t to = (i / 3 + 1) * 3; to < (i / 3 + 2) * 3 && to < count_;
                     ++to) {
                    link(i, to);
                }
                break;
            }
        }
    }

    std::mt19937& random_;
    std::uint32_t count_;
    bool interior_ = random_() % 2 == 0;
    std::vector<std::vector<BlockLink>> rows_;
    std::vector<std::uint32_t> names_;
};

} // namespace memleax
