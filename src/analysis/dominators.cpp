// SPDX-License-Identifier: GPL-3.0-or-later
// Retained sizes. Node 0 is above all roots; then come the groups of roots, then the blocks.
#include <algorithm>

#include "memleax/analysis/holders.hpp"

namespace memleax {

namespace {

constexpr std::uint32_t kNowhere = 0xffffffff;

/// Edges in compressed rows.
struct Rows {
    std::vector<std::uint64_t> first;
    std::vector<std::uint32_t> nodes;
    [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t node) const {
        return std::span(nodes).subspan(first[node], first[node + 1] - first[node]);
    }
};

class Dominators {
  public:
    Dominators(const HeapGraph& graph, const RootGroups& roots,
               std::span<const std::uint32_t> leaders)
        : graph_(graph), roots_(roots), leaders_(leaders),
          first_block_(static_cast<std::uint32_t>(1 + roots.count)),
          nodes_(first_block_ + static_cast<std::uint32_t>(graph.blocks.size())) {}

    RetainedSizes run() {
        successors_ = rows(false);
        number_nodes();
        successors_ = {};
        predecessors_ = rows(true);
        find_semidominators();
        predecessors_ = {};
        find_dominators();
        return sum_up();
    }

  private:
    template <class Each> void for_each_edge(Each&& each) const {
        for (std::uint32_t group = 0; group < roots_.count; ++group) {
            each(0, 1 + group);
        }
        for (const std::uint32_t leader : leaders_) {
            each(0, first_block_ + leader);
        }
        for (std::size_t root = 0; root < graph_.roots.size(); ++root) {
            each(1 + roots_.groups[root], first_block_ + graph_.roots[root].block());
        }
        for (std::uint32_t block = 0; block < graph_.blocks.size(); ++block) {
            for (const BlockLink link : graph_.links.of(block)) {
                each(first_block_ + block, first_block_ + link.block());
            }
        }
    }

    [[nodiscard]] Rows rows(bool reversed) const {
        Rows result;
        result.first.assign(nodes_ + 1, 0);
        for_each_edge([&](std::uint32_t from, std::uint32_t to) {
            ++result.first[(reversed ? to : from) + 1];
        });
        for (std::uint32_t node = 0; node < nodes_; ++node) {
            result.first[node + 1] += result.first[node];
        }
        result.nodes.resize(result.first.back());
        std::vector<std::uint64_t> next(result.first.begin(), result.first.end() - 1);
        for_each_edge([&](std::uint32_t from, std::uint32_t to) {
            result.nodes[next[reversed ? to : from]++] = reversed ? from : to;
        });
        return result;
    }

    /// Depth first, in preorder; what is not reached has no number.
    void number_nodes() {
        numbers_.assign(nodes_, kNowhere);
        std::vector<std::uint64_t> next(successors_.first.begin(), successors_.first.end() - 1);
        std::vector<std::uint32_t> path{0};
        numbers_[0] = 0;
        in_order_.push_back(0);
        parents_.push_back(0);
        while (!path.empty()) {
            const std::uint32_t node = path.back();
            if (next[node] == successors_.first[node + 1]) {
                path.pop_back();
                continue;
            }
            const std::uint32_t to = successors_.nodes[next[node]++];
            if (numbers_[to] == kNowhere) {
                numbers_[to] = static_cast<std::uint32_t>(in_order_.size());
                in_order_.push_back(to);
                parents_.push_back(numbers_[node]);
                path.push_back(to);
            }
        }
    }

    /// All by number from here on.
    void find_semidominators() {
        const auto count = static_cast<std::uint32_t>(in_order_.size());
        semi_.resize(count);
        labels_.resize(count);
        ancestors_ = parents_;
        for (std::uint32_t i = 0; i < count; ++i) {
            semi_[i] = labels_[i] = i;
        }
        for (std::uint32_t i = count - 1; i > 0; --i) {
            for (const std::uint32_t from : predecessors_.of(in_order_[i])) {
                if (const std::uint32_t number = numbers_[from]; number != kNowhere) {
                    semi_[i] = std::min(semi_[i], semi_[evaluate(number, i)]);
                }
            }
            labels_[i] = i;
        }
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
        dominators_ = parents_;
        for (std::uint32_t i = 1; i < dominators_.size(); ++i) {
            while (dominators_[i] > semi_[i]) {
                dominators_[i] = dominators_[dominators_[i]];
            }
        }
    }

    RetainedSizes sum_up() {
        std::vector<BlockCount> sums(in_order_.size());
        for (std::size_t i = in_order_.size() - 1; i > 0; --i) {
            if (in_order_[i] >= first_block_) {
                sums[i].add(graph_.blocks[in_order_[i] - first_block_].size);
            }
            sums[dominators_[i]] = sums[dominators_[i]] + sums[i];
        }
        RetainedSizes result;
        result.of_block.resize(graph_.blocks.size());
        result.of_group.resize(roots_.count);
        for (std::size_t i = 1; i < in_order_.size(); ++i) {
            const std::uint32_t node = in_order_[i];
            (node >= first_block_ ? result.of_block[node - first_block_]
                                  : result.of_group[node - 1]) = sums[i];
        }
        return result;
    }

    const HeapGraph& graph_;
    const RootGroups& roots_;
    std::span<const std::uint32_t> leaders_;
    std::uint32_t first_block_;
    std::uint32_t nodes_;
    Rows successors_;
    Rows predecessors_;
    std::vector<std::uint32_t> numbers_;  ///< of each node, in preorder
    std::vector<std::uint32_t> in_order_; ///< the node of each number
    std::vector<std::uint32_t> parents_;  ///< in the depth-first tree
    std::vector<std::uint32_t> semi_;
    std::vector<std::uint32_t> labels_;
    std::vector<std::uint32_t> ancestors_;
    std::vector<std::uint32_t> dominators_;
    std::vector<std::uint32_t> way_;
};

} // namespace

RetainedSizes retained_sizes(const HeapGraph& graph, const RootGroups& roots,
                             std::span<const std::uint32_t> leaders) {
    return Dominators(graph, roots, leaders).run();
}

} // namespace memleax
