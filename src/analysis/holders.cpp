// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/analysis/holders.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// Which of two kinds a number is of.
constexpr std::uint64_t kByRoot = 1ULL << 63;
constexpr std::uint64_t kNotReached = ~0ULL;
constexpr std::uint64_t kLeader = kNotReached - 1; ///< a chain of lost blocks begins there

} // namespace

HolderChains::HolderChains(const HeapGraph& graph, const RootGroups& roots,
                           std::span<const std::uint32_t> leaders)
    : graph_(graph), pointers_(graph.blocks.size(), kNotReached),
      groups_(graph.blocks.size(), kNone) {
    for (const bool last : {false, true}) {
        for (std::size_t root = 0; root < graph.roots.size(); ++root) {
            const std::uint32_t group = roots.groups[root];
            if (roots.last[group] == last) {
                reach(graph.roots[root].block(), root, true, group);
            }
        }
        follow();
    }
    for (const std::uint32_t leader : leaders) {
        if (pointers_[leader] == kNotReached) {
            pointers_[leader] = kLeader; // also where its own cycle leads back to it
            queue_.push_back(leader);
        }
    }
    follow();
    queue_ = {};
}

void HolderChains::reach(std::uint32_t block, std::uint64_t pointer, bool by_root,
                         std::uint32_t group) {
    if (pointers_[block] == kNotReached) {
        pointers_[block] = pointer | (by_root ? kByRoot : 0);
        groups_[block] = group;
        queue_.push_back(block);
    }
}

// Breadth first: the first way to a block is a shortest one.
void HolderChains::follow() {
    for (; next_ < queue_.size(); ++next_) {
        const std::uint32_t block = queue_[next_];
        if (graph_.links.empty()) {
            continue;
        }
        for (std::uint64_t link = graph_.first_link[block]; link < graph_.first_link[block + 1];
             ++link) {
            reach(graph_.links[link].block(), link, false, groups_[block]);
        }
    }
}

std::optional<HolderChains::Step> HolderChains::holder_of(std::uint32_t block) const {
    const std::uint64_t pointer = pointers_[block];
    if (pointer == kNotReached || pointer == kLeader) {
        return std::nullopt;
    }
    if ((pointer & kByRoot) != 0) {
        return Step{std::nullopt, pointer & ~kByRoot};
    }
    const auto after =
        std::upper_bound(graph_.first_link.begin(), graph_.first_link.end(), pointer);
    return Step{static_cast<std::uint32_t>(after - graph_.first_link.begin()) - 1, pointer};
}

std::optional<std::uint32_t> HolderChains::group_of(std::uint32_t block) const {
    return groups_[block] == kNone ? std::nullopt : std::optional(groups_[block]);
}

References references_to(const HeapGraph& graph, std::uint32_t block) {
    References result;
    for (std::size_t root = 0; root < graph.roots.size(); ++root) {
        if (graph.roots[root].block() == block) {
            result.roots.push_back(static_cast<std::uint32_t>(root));
        }
    }
    std::uint32_t from = 0;
    for (std::uint64_t link = 0; link < graph.links.size(); ++link) {
        while (graph.first_link[from + 1] <= link) {
            ++from;
        }
        if (graph.links[link].block() == block) {
            result.links.push_back({from, link});
        }
    }
    return result;
}

} // namespace memleax
