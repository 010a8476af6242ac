// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/analysis/holders.hpp"

#include "link_guess.hpp"

namespace memleax {

namespace {

/// Which of two kinds a number is of.
constexpr std::uint64_t kByRoot = 1ULL << 63;
constexpr std::uint64_t kNotReached = ~0ULL;
constexpr std::uint64_t kLeader = kNotReached - 1; ///< a chain of lost blocks begins there

} // namespace

HolderChains::HolderChains(const HeapGraph& graph, const RootGroups& roots,
                           std::span<const std::uint32_t> leaders)
    : graph_(graph), pointers_(graph.blocks.size(), kNotReached) {
    for (const bool last : {false, true}) {
        for (std::size_t root = 0; root < graph.roots.size(); ++root) {
            if (roots.last[roots.groups[root]] == last) {
                reach(graph.roots[root].block(), root | kByRoot);
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
    queue_ = LargeVector<std::uint32_t>();
}

void HolderChains::reach(std::uint32_t block, std::uint64_t pointer) {
    if (pointers_[block] == kNotReached) {
        pointers_[block] = pointer;
        queue_.push_back(block);
    }
}

// Breadth first: the first way to a block is a shortest one.
void HolderChains::follow() {
    const LinkGuess guess(graph_);
    for (; next_ < queue_.size(); ++next_) {
        const std::uint32_t block = queue_[next_];
        std::uint64_t number = graph_.links.first(block);
        for (const BlockLink link : graph_.links.of(block)) {
            __builtin_prefetch(guess.of(link.block()));
            reach(link.block(), number++);
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
    return Step{graph_.links.block_of(pointer), pointer};
}

References references_to(const HeapGraph& graph, std::uint32_t block) {
    References result;
    for (std::size_t root = 0; root < graph.roots.size(); ++root) {
        if (graph.roots[root].block() == block) {
            result.roots.push_back(static_cast<std::uint32_t>(root));
        }
    }
    std::uint64_t number = 0;
    for (std::uint32_t from = 0; from < graph.blocks.size(); ++from) {
        for (const BlockLink link : graph.links.of(from)) {
            if (link.block() == block) {
                result.links.push_back({from, number});
            }
            ++number;
        }
    }
    return result;
}

} // namespace memleax
