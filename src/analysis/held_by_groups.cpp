// SPDX-License-Identifier: GPL-3.0-or-later
// Groups of roots are what dominates all else, so that no dominator tree is needed for what they
// hold: a block is one group's alone if so are all that point to it.
#include <cstddef>
#include <span>

#include "breadth_first.hpp"
#include "memleax/analysis/reachability.hpp"

namespace memleax {

namespace {

class SharedBlocks {
  public:
    SharedBlocks(const HeapGraph& graph, const RootGroups& roots,
                 const LargeVector<std::uint32_t>& groups)
        : groups_(groups), shared_(graph.blocks.size()), to_follow_(graph) {
        for (std::size_t root = 0; root < graph.roots.size(); ++root) {
            look_at(graph.roots[root].block(), roots.groups[root]);
        }
        for (std::uint32_t block = 0; block < groups.size(); ++block) {
            for (const BlockLink link : graph.links.of(block)) {
                look_at(link.block(), groups[block]); // kNoGroup: lost blocks hold it, too
            }
        }
        to_follow_.run([this](std::uint32_t /*block*/, std::span<const BlockLink> links) {
            for (const BlockLink link : links) {
                share(link.block());
            }
        });
    }

    [[nodiscard]] bool contain(std::uint32_t block) const { return shared_[block]; }

  private:
    void look_at(std::uint32_t block, std::uint32_t group) {
        if (groups_[block] != group) {
            share(block);
        }
    }
    void share(std::uint32_t block) {
        if (!shared_[block]) {
            shared_[block] = true;
            to_follow_.push(block);
        }
    }

    const LargeVector<std::uint32_t>& groups_;
    std::vector<bool> shared_;
    BreadthFirst to_follow_;
};

} // namespace

std::vector<BlockCount> held_by_groups(const HeapGraph& graph, const RootGroups& roots,
                                       const Reachability& reached) {
    const SharedBlocks shared(graph, roots, reached.groups);
    std::vector<BlockCount> result(roots.count);
    for (std::uint32_t block = 0; block < reached.groups.size(); ++block) {
        if (const std::uint32_t group = reached.groups[block];
            group != kNoGroup && !shared.contain(block)) {
            result[group].add(graph.blocks[block].size);
        }
    }
    return result;
}

} // namespace memleax
