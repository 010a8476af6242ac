// SPDX-License-Identifier: GPL-3.0-or-later
/// Who holds a block: the shortest chain of pointers to it from a root, and what would go with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memleax/analysis/root_groups.hpp"
#include "memleax/base/large_vector.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

/// For each block, the first step of a shortest chain back to a root. Linear; 8 bytes a block.
class HolderChains {
  public:
    /// Both must outlive it. Lost blocks are reached from those of `leaders` (definitely lost
    /// ones), when all that roots reach has been found.
    HolderChains(const HeapGraph& graph, const RootGroups& roots,
                 std::span<const std::uint32_t> leaders);

    /// What points to a block in its chain.
    struct Step {
        std::optional<std::uint32_t> block; ///< a block, by its link number `pointer`, ...
        std::uint64_t pointer = 0;          ///< ... or a root, by its number
    };
    /// Nothing for a leader.
    [[nodiscard]] std::optional<Step> holder_of(std::uint32_t block) const;

  private:
    void reach(std::uint32_t block, std::uint64_t pointer);
    void follow();

    const HeapGraph& graph_;
    LargeVector<std::uint64_t> pointers_; ///< of each block: link or root number, and which
    LargeVector<std::uint32_t> queue_;
    std::size_t next_ = 0;
};

/// What each block and each group of roots alone keeps from being lost, itself included, by the
/// dominator tree of the graph (L. Georgiadis, R. Tarjan, R. Werneck, "Finding dominators in
/// practice", the semi-NCA algorithm).
struct RetainedSizes {
    LargeVector<BlockCount> of_block;
    std::vector<BlockCount> of_group;
};
RetainedSizes retained_sizes(const HeapGraph& graph, const RootGroups& roots,
                             std::span<const std::uint32_t> leaders);

/// Who points to this block: links, by number, and roots, by number. One pass over all of them.
struct References {
    struct Link {
        std::uint32_t block = 0; ///< that has it
        std::uint64_t link = 0;
    };
    std::vector<Link> links;
    std::vector<std::uint32_t> roots;
};
References references_to(const HeapGraph& graph, std::uint32_t block);

} // namespace memleax
