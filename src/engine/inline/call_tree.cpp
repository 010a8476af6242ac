// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_tree.hpp"

#include <optional>

#include "arch.hpp"

namespace memleax {

namespace {

using agent::Node;

constexpr std::uint32_t kSlotsOfPage = 4096 / sizeof(std::uint32_t);
static_assert(agent::kChildSlots % kSlotsOfPage == 0);

/// The frame's equations, as the agent follows them; nothing if it does not.
std::optional<Node> walking(const Rule& given) {
    // A guess, but no other one than the tracer's: it has to lead to a caller that is known.
    const bool is_guess = given.kind == Rule::Kind::frame_pointer;
    const Rule rule = is_guess ? rule_by_frame_pointer(Rule::Kind::regular) : given;
    const auto ra_offset = static_cast<std::uint64_t>(std::int64_t{rule.ra_offset});
    if (rule.kind != Rule::Kind::regular || rule.ra_place != Rule::RaPlace::at_cfa ||
        arch::agent_return_place(rule.ra_offset) != ra_offset) {
        return std::nullopt;
    }
    Node node;
    node.kind = Node::Kind::walk;
    node.ra_offset = rule.ra_offset;
    node.cfa_offset = rule.cfa_offset;
    node.fp_offset = rule.fp_offset;
    switch (rule.cfa_base) {
    case Rule::CfaBase::sp:
        node.base = Node::Base::sp;
        break;
    case Rule::CfaBase::fp:
        node.base = is_guess ? Node::Base::plausible_fp : Node::Base::fp;
        break;
    case Rule::CfaBase::at_fp:
        node.base = Node::Base::at_fp;
        break;
    }
    switch (rule.fp_place) {
    case Rule::FpPlace::unchanged:
        node.fp_place = Node::FpPlace::unchanged;
        break;
    case Rule::FpPlace::at_cfa:
        node.fp_place = Node::FpPlace::at_cfa;
        break;
    case Rule::FpPlace::at_fp:
        node.fp_place = Node::FpPlace::at_fp;
        break;
    }
    return node;
}

Node leaf(StackId id) {
    Node node;
    node.kind = Node::Kind::leaf;
    node.stack = id.value();
    return node;
}

} // namespace

bool CallTree::add(std::uint32_t function, const UnwoundStack& stack, std::span<const Rule> rules,
                   StackId id) {
    const auto& frames = stack.frames;
    had_no_room_ = false;
    // Only these two ends are the same whatever the memory holds.
    const bool is_whole = stack.end == StackEnd::outermost || stack.end == StackEnd::limit;
    if (frames.size() < 2 || !is_whole || function >= agent::kMaxFunctions) {
        return false;
    }
    std::uint32_t parent = function + 1;
    for (std::size_t i = 1; i < frames.size(); ++i) {
        if (!frames[i].is_return_address()) {
            return false;
        }
        const Key key{parent, frames[i].pc().value()};
        const bool is_last = i + 1 == frames.size();
        const bool ends =
            is_last && (stack.end == StackEnd::limit || rules[i].kind == Rule::Kind::outermost);
        const auto node = ends ? std::optional(leaf(id)) : walking(rules[i]);
        parent = node ? child(key, *node) : 0;
        if (parent == 0) {
            return false;
        }
        if (is_last && !ends) { // its return address is 0 (Walker)
            return child({parent, 0}, leaf(id)) != 0;
        }
    }
    return true;
}

std::uint32_t CallTree::free_slot(const Key& key) const {
    for (std::uint32_t i = 0; i < agent::kMostProbes; ++i) {
        const std::uint32_t slot =
            (agent::child_slot(key.parent, key.return_address) + i) % agent::kChildSlots;
        if (!taken_[slot]) {
            return slot;
        }
    }
    return agent::kChildSlots;
}

std::uint32_t CallTree::child(const Key& key, Node node) {
    if (const auto known = nodes_.find(key); known != nodes_.end()) {
        return known->second;
    }
    const bool is_first = !parents_[key.parent];
    const std::uint32_t slot = is_first ? 0 : free_slot(key);
    if (slot == agent::kChildSlots || next_node_ == agent::kMaxNodes) {
        had_no_room_ = true;
        return 0;
    }
    node.parent = key.parent;
    node.return_address = key.return_address;
    const std::uint32_t index = next_node_++;
    // The node is whole before anything leads to it. What is half written leads to a node that says
    // so, as it is another's.
    writer_.write_node(index, node);
    if (is_first) {
        writer_.write_first_child(key.parent, index);
        parents_[key.parent] = true;
    } else {
        writer_.write_child(slot, index);
        pages_.insert(slot / kSlotsOfPage);
        taken_[slot] = true;
    }
    nodes_.emplace(key, index);
    return index;
}

// The agent may be at a node: such a walk ends in another epoch than it began in, and so counts for
// nothing. Of the children only the pages in which there are any are written, as what is written
// takes memory.
void CallTree::clear() {
    if (!nodes_.empty()) {
        for (const std::uint32_t page : pages_) {
            writer_.clear_children(page * kSlotsOfPage, kSlotsOfPage);
        }
        pages_.clear();
        writer_.clear_functions();
        nodes_.clear();
        taken_.assign(agent::kChildSlots, false);
        parents_.assign(agent::kMaxNodes, false);
        next_node_ = kFirstNode;
    }
}

} // namespace memleax
