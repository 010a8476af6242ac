// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/analysis/reachability.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "breadth_first.hpp"

namespace memleax {

namespace {

constexpr LossClass kNotSeen = LossClass::definite; ///< until something is found that leads to it

class Marking {
  public:
    Marking(const HeapGraph& graph, const RootGroups& roots)
        : graph_(graph), roots_(roots), classes_(graph.blocks.size(), kNotSeen),
          groups_(graph.blocks.size(), kNoGroup), breadth_first_(graph) {}

    Reachability run() {
        for (const bool last : {false, true}) {
            for (std::size_t root = 0; root < graph_.roots.size(); ++root) {
                const std::uint32_t group = roots_.groups[root];
                if (roots_.last[group] == last) {
                    reach(graph_.roots[root], true, group);
                }
            }
            follow_breadth_first();
        }
        follow_sound_late();
        mark_indirect();
        return {std::move(classes_), std::move(groups_), {}};
    }

  private:
    /// `from_sound`: a sound chain, of pointers to first bytes, leads to whom the link is in.
    void reach(BlockLink link, bool from_sound, std::uint32_t group) {
        const std::uint32_t block = link.block();
        const bool is_sound = from_sound && !link.is_interior();
        LossClass& as = classes_[block];
        if (as == kNotSeen) {
            as = is_sound ? LossClass::reachable : LossClass::possible;
            groups_[block] = group;
            breadth_first_.push(block);
        } else if (is_sound && as == LossClass::possible) {
            as = LossClass::reachable;
            to_follow_.push_back(block); // its links may have been followed already
        }
    }

    /// The first way to a block is a shortest one, so that each is followed by this only once.
    void follow_breadth_first() {
        breadth_first_.run([this](std::uint32_t block, std::span<const BlockLink> links) {
            const bool is_sound = classes_[block] == LossClass::reachable;
            for (const BlockLink link : links) {
                reach(link, is_sound, groups_[block]);
            }
        });
    }

    /// A sound chain may be longer than the one by which a block was reached first.
    void follow_sound_late() {
        follow([this](BlockLink link) {
            if (!link.is_interior() && classes_[link.block()] == LossClass::possible) {
                classes_[link.block()] = LossClass::reachable;
                to_follow_.push_back(link.block());
            }
        });
    }

    template <class Each> void follow(Each&& each) {
        while (!to_follow_.empty()) {
            const std::uint32_t block = to_follow_.back();
            to_follow_.pop_back();
            for (const BlockLink link : graph_.links.of(block)) {
                each(link);
            }
        }
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
    const RootGroups& roots_;
    LargeVector<LossClass> classes_;
    LargeVector<std::uint32_t> groups_;
    BreadthFirst breadth_first_;
    LargeVector<std::uint32_t> to_follow_;
};

} // namespace

Reachability classify(const HeapGraph& graph, const RootGroups& roots) {
    Reachability result = Marking(graph, roots).run();
    for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
        if (graph.lacks_roots && result.classes[i] != LossClass::reachable) {
            result.classes[i] = LossClass::possible;
        }
        result.totals[static_cast<std::size_t>(result.classes[i])].add(graph.blocks[i].size);
    }
    return result;
}

} // namespace memleax
