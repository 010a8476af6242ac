// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/analysis/reachability.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace memleax {

namespace {

constexpr LossClass kNotSeen = LossClass::definite; ///< until something is found that leads to it

class Marking {
  public:
    explicit Marking(const HeapGraph& graph)
        : graph_(graph), classes_(graph.blocks.size(), kNotSeen) {}

    std::vector<LossClass> run() {
        mark_reachable();
        mark_possible();
        mark_indirect();
        return std::move(classes_);
    }

  private:
    [[nodiscard]] std::span<const BlockLink> links_of(std::uint32_t block) const {
        if (graph_.links.empty()) {
            return {};
        }
        const std::uint64_t begin = graph_.first_link[block];
        return std::span(graph_.links).subspan(begin, graph_.first_link[block + 1] - begin);
    }

    void mark(BlockLink link, LossClass as) {
        if (classes_[link.block()] == kNotSeen) {
            classes_[link.block()] = as;
            to_follow_.push_back(link.block());
        }
    }

    template <class Each> void follow(Each&& each) {
        while (!to_follow_.empty()) {
            const std::uint32_t block = to_follow_.back();
            to_follow_.pop_back();
            for (const BlockLink link : links_of(block)) {
                each(link);
            }
        }
    }

    void mark_reachable() {
        const auto each = [this](BlockLink link) {
            if (!link.is_interior()) {
                mark(link, LossClass::reachable);
            }
        };
        for (const BlockLink root : graph_.roots) {
            each(root);
        }
        follow(each);
    }

    /// What is marked from here on has no sound chain. The other links of reachable blocks have
    /// been followed: each look at a block's class anew would be a cache miss.
    void mark_possible() {
        const auto mark_interior = [this](BlockLink link) {
            if (link.is_interior()) {
                mark(link, LossClass::possible);
            }
        };
        for (const BlockLink root : graph_.roots) {
            mark_interior(root);
        }
        for (std::uint32_t block = 0; block < classes_.size(); ++block) {
            if (classes_[block] == LossClass::reachable) {
                for (const BlockLink link : links_of(block)) {
                    mark_interior(link);
                }
            }
        }
        follow([this](BlockLink link) { mark(link, LossClass::possible); });
    }

    /// A block that no earlier one leads to may be definitely lost: of a cycle it is the first one.
    /// It is not if a later one of them leads to it; that has been looked at when its turn comes,
    /// from the last one on.
    void mark_indirect() {
        std::vector<bool> followed(classes_.size());
        const auto follow_from = [&](std::uint32_t leader, auto&& each) {
            followed[leader] = true;
            to_follow_.push_back(leader);
            follow([&](BlockLink link) {
                const std::uint32_t block = link.block();
                if (classes_[block] != LossClass::reachable &&
                    classes_[block] != LossClass::possible && !followed[block]) {
                    followed[block] = true;
                    each(block);
                    to_follow_.push_back(block);
                }
            });
        };
        std::vector<std::uint32_t> leaders;
        for (std::uint32_t block = 0; block < classes_.size(); ++block) {
            if (classes_[block] == kNotSeen && !followed[block]) {
                leaders.push_back(block);
                follow_from(block, [](std::uint32_t) {});
            }
        }
        std::fill(followed.begin(), followed.end(), false);
        for (auto leader = leaders.rbegin(); leader != leaders.rend(); ++leader) {
            if (!followed[*leader]) {
                follow_from(*leader,
                            [this](std::uint32_t block) { classes_[block] = LossClass::indirect; });
            }
        }
    }

    const HeapGraph& graph_;
    std::vector<LossClass> classes_;
    std::vector<std::uint32_t> to_follow_;
};

} // namespace

Reachability classify(const HeapGraph& graph) {
    Reachability result;
    result.classes = Marking(graph).run();
    for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
        result.totals[static_cast<std::size_t>(result.classes[i])].add(graph.blocks[i].size);
    }
    return result;
}

} // namespace memleax
