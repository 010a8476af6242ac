// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_tree.hpp"

#include <algorithm>
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

/// Does a stack end at its last frame, whatever the memory holds?
bool ends_always(StackEnd end, const Rule& last) {
    return end == StackEnd::limit || last.kind == Rule::Kind::outermost ||
           last.kind == Rule::Kind::none;
}

/// What the agent takes for the return address behind the last frame; nothing if it does not.
std::optional<std::uint64_t> end_key(const UnwoundStack& stack, const Rule& last) {
    switch (stack.end) {
    case StackEnd::outermost:
        return agent::kNoCaller;
    case StackEnd::not_code:
        return stack.no_code;
    case StackEnd::no_rule:
        if (last.kind == Rule::Kind::frame_pointer) {
            return stack.guess_led_nowhere ? stack.no_code : agent::kNoFrame;
        }
        break;
    default:
        break;
    }
    return std::nullopt;
}

} // namespace

bool CallTree::add(std::uint32_t function, const UnwoundStack& stack, std::span<const Rule> rules,
                   StackId id) {
    const auto& frames = stack.frames;
    had_no_room_ = false;
    if (frames.size() < 2 || function >= agent::kMaxFunctions) {
        return false;
    }
    const bool is_leaf = ends_always(stack.end, rules[frames.size() - 1]);
    const auto behind = end_key(stack, rules[frames.size() - 1]);
    if (!is_leaf && !behind) {
        return false;
    }
    std::uint32_t parent = function + 1;
    for (std::size_t i = 1; i < frames.size(); ++i) {
        if (!frames[i].is_return_address()) {
            return false;
        }
        const Key key{parent, frames[i].pc().value()};
        const bool is_last = i + 1 == frames.size();
        const auto node = is_last && is_leaf ? std::optional(leaf(id)) : walking(rules[i]);
        parent = node ? child(key, *node) : 0;
        if (parent == 0) {
            return false;
        }
    }
    return is_leaf || add_end({parent, *behind}, id);
}

// What is no return address is mostly old data, which may be anything: some of it gets a leaf, and
// not all the room that there is.
bool CallTree::add_end(const Key& key, StackId id) {
    const std::uint64_t word = key.return_address;
    if (word != agent::kNoCaller && word != agent::kNoFrame) {
        auto& strays = strays_[key.parent];
        if (strays.size() == kMostStrays && !strays.contains(word)) {
            return false;
        }
        strays.insert(word);
    }
    return child(key, leaf(id)) != 0;
}

bool CallTree::has_stray(const std::function<bool(std::uint64_t)>& is_code) const {
    return std::any_of(strays_.begin(), strays_.end(), [&](const auto& node) {
        return std::any_of(node.second.begin(), node.second.end(), is_code);
    });
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
        strays_.clear();
        next_node_ = kFirstNode;
    }
}

} // namespace memleax
