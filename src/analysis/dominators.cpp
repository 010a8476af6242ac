// SPDX-License-Identifier: GPL-3.0-or-later
// Retained sizes. Node 0 is above all roots; then come the groups of roots, then the blocks.
#include <algorithm>
#include <utility>

#include "link_guess.hpp"
#include "memleax/analysis/holders.hpp"

namespace memleax {

namespace {

constexpr std::uint32_t kNowhere = 0xffffffff;

class Dominators {
  public:
    Dominators(const HeapGraph& graph, const RootGroups& roots,
               std::span<const std::uint32_t> leaders)
        : graph_(graph), roots_(roots), leaders_(leaders),
          first_block_(static_cast<std::uint32_t>(1 + roots.count)),
          nodes_(first_block_ + static_cast<std::uint32_t>(graph.blocks.size())),
          blocks_of_group_(roots.count) {
        for (std::size_t root = 0; root < graph.roots.size(); ++root) {
            blocks_of_group_[roots.groups[root]].push_back(graph.roots[root].block());
        }
    }

    RetainedSizes run() {
        number_nodes();
        find_other_predecessors();
        find_semidominators();
        find_dominators();
        return sum_up();
    }

  private:
    /// The node to which edge `edge` of this one leads; kNowhere: it has no more.
    [[nodiscard]] std::uint32_t successor(std::uint32_t node, std::uint64_t edge) const {
        if (node >= first_block_) {
            const auto links = graph_.links.of(node - first_block_);
            return edge < links.size() ? first_block_ + links[edge].block() : kNowhere;
        }
        if (node > 0) {
            const auto& blocks = blocks_of_group_[node - 1];
            return edge < blocks.size() ? first_block_ + blocks[edge] : kNowhere;
        }
        if (edge < roots_.count) {
            return static_cast<std::uint32_t>(1 + edge);
        }
        edge -= roots_.count;
        return edge < leaders_.size() ? first_block_ + leaders_[edge] : kNowhere;
    }

    /// Depth first, in preorder; what is not reached has no number.
    void number_nodes() {
        numbers_.assign(nodes_, kNowhere);
        in_order_.reserve(nodes_);
        parents_.reserve(nodes_);
        const LinkGuess guess(graph_);
        LargeVector<std::uint32_t> path{0};
        LargeVector<std::uint64_t> next{0}; // edge, of each node of the path
        numbers_[0] = 0;
        in_order_.push_back(0);
        parents_.push_back(0);
        while (!path.empty()) {
            const std::uint32_t node = path.back();
            const std::uint32_t to = successor(node, next.back()++);
            if (to == kNowhere) {
                path.pop_back();
                next.pop_back();
            } else if (numbers_[to] == kNowhere) {
                numbers_[to] = static_cast<std::uint32_t>(in_order_.size());
                in_order_.push_back(to);
                parents_.push_back(numbers_[node]);
                path.push_back(to);
                next.push_back(0);
                if (to >= first_block_) {
                    __builtin_prefetch(guess.of(to - first_block_));
                }
            }
        }
    }

    /// Edges that are not in the depth-first tree, by the numbers of their nodes. Most heaps have
    /// few: of a list there are none.
    template <class Each> void for_each_other_edge(Each&& each) const {
        for (std::uint32_t node = 0; node < nodes_; ++node) {
            const std::uint32_t from = numbers_[node];
            if (from == kNowhere) {
                continue;
            }
            for (std::uint64_t edge = 0;; ++edge) {
                const std::uint32_t to = successor(node, edge);
                if (to == kNowhere) {
                    break;
                }
                if (parents_[numbers_[to]] != from) {
                    each(from, numbers_[to]);
                }
            }
        }
    }

    /// All by number from here on. In compressed rows.
    void find_other_predecessors() {
        first_other_.assign(in_order_.size() + 1, 0);
        for_each_other_edge([this](std::uint32_t, std::uint32_t to) { ++first_other_[to]; });
        std::uint64_t sum = 0;
        for (std::uint64_t& first : first_other_) {
            sum += first;
            first = sum; // where the row ends; filled from there down
        }
        others_.resize(sum);
        for_each_other_edge(
            [this](std::uint32_t from, std::uint32_t to) { others_[--first_other_[to]] = from; });
        numbers_ = LargeVector<std::uint32_t>();
    }

    void find_semidominators() {
        const auto count = static_cast<std::uint32_t>(in_order_.size());
        semi_.resize(count);
        labels_.resize(count);
        ancestors_ = parents_;
        for (std::uint32_t i = 0; i < count; ++i) {
            semi_[i] = labels_[i] = i;
        }
        for (std::uint32_t i = count - 1; i > 0; --i) {
            semi_[i] = parents_[i];
            for (std::uint64_t other = first_other_[i]; other < first_other_[i + 1]; ++other) {
                semi_[i] = std::min(semi_[i], semi_[evaluate(others_[other], i)]);
            }
        }
        // Not "= {}", which keeps the memory.
        labels_ = LargeVector<std::uint32_t>();
        ancestors_ = LargeVector<std::uint32_t>();
        others_ = LargeVector<std::uint32_t>();
        first_other_ = LargeVector<std::uint64_t>();
    }

    /// Of those on the way up from `number` that are linked already (above `last`), the one with
    /// the least semidominator; the way is made shorter.
    std::uint32_t evaluate(std::uint32_t number, std::uint32_t last) {
        if (number <= last) {
            return number;
        }
        way_.clear();
        for (std::uint32_t at = number; ancestors_[at] > last; at = ancestors_[at]) {
            way_.push_back(at);
        }
        for (auto at = way_.rbegin(); at != way_.rend(); ++at) {
            const std::uint32_t above = ancestors_[*at];
            if (semi_[labels_[above]] < semi_[labels_[*at]]) {
                labels_[*at] = labels_[above];
            }
            ancestors_[*at] = ancestors_[above];
        }
        return labels_[number];
    }

    void find_dominators() {
        dominators_ = std::move(parents_);
        for (std::uint32_t i = 1; i < dominators_.size(); ++i) {
            while (dominators_[i] > semi_[i]) {
                dominators_[i] = dominators_[dominators_[i]];
            }
        }
        semi_ = LargeVector<std::uint32_t>();
    }

    RetainedSizes sum_up() {
        RetainedSizes result;
        result.of_block.resize(graph_.blocks.size());
        result.of_group.resize(roots_.count);
        BlockCount all;
        const auto sum_of = [&](std::uint32_t node) -> BlockCount& {
            return node >= first_block_ ? result.of_block[node - first_block_]
                   : node > 0           ? result.of_group[node - 1]
                                        : all;
        };
        for (std::size_t i = in_order_.size() - 1; i > 0; --i) {
            const std::uint32_t node = in_order_[i];
            BlockCount& sum = sum_of(node);
            if (node >= first_block_) {
                sum.add(graph_.blocks[node - first_block_].size);
            }
            BlockCount& above = sum_of(in_order_[dominators_[i]]);
            above = above + sum;
        }
        return result;
    }

    const HeapGraph& graph_;
    const RootGroups& roots_;
    std::span<const std::uint32_t> leaders_;
    std::uint32_t first_block_;
    std::uint32_t nodes_;
    std::vector<std::vector<std::uint32_t>> blocks_of_group_;
    LargeVector<std::uint32_t> numbers_;     ///< of each node, in preorder
    LargeVector<std::uint32_t> in_order_;    ///< the node of each number
    LargeVector<std::uint32_t> parents_;     ///< in the depth-first tree
    LargeVector<std::uint64_t> first_other_; ///< in `others_`, of each node, and the end of all
    LargeVector<std::uint32_t> others_;      ///< predecessors but for the parent
    LargeVector<std::uint32_t> semi_;
    LargeVector<std::uint32_t> labels_;
    LargeVector<std::uint32_t> ancestors_;
    LargeVector<std::uint32_t> dominators_;
    std::vector<std::uint32_t> way_;
};

} // namespace

RetainedSizes retained_sizes(const HeapGraph& graph, const RootGroups& roots,
                             std::span<const std::uint32_t> leaders) {
    return Dominators(graph, roots, leaders).run();
}

} // namespace memleax
