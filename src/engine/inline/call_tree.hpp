// SPDX-License-Identifier: GPL-3.0-or-later
/// The call stacks that the agent knows: a calling-context tree (agent::Node), which grows by each
/// stack that the tracer has walked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "agent/agent.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/unwind/rule.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

/// Where the tree's changes go.
class CallTreeWriter {
  public:
    virtual ~CallTreeWriter() = default;
    virtual void write_node(std::uint32_t index, const agent::Node& node) = 0;
    virtual void write_child(std::uint32_t slot, std::uint32_t node) = 0;
    virtual void write_first_child(std::uint32_t parent, std::uint32_t node) = 0;
    /// Empties so many of the children's slots, from this one on.
    virtual void clear_children(std::uint32_t first_slot, std::uint32_t count) = 0;
    /// After that: the functions have no first child, and a new epoch begins, for which no memo
    /// holds, and no walk that has begun before.
    virtual void clear_functions() = 0;
};

class CallTree {
  public:
    /// It must outlive this.
    explicit CallTree(CallTreeWriter& writer) : writer_(writer) {}

    /// `rules[i]` is frame i's. False if the agent cannot walk such a stack, or there is no room
    /// for more: then calls with it go on to trap. Where the stack ends at what is no code, that
    /// must have been looked for just now.
    bool add(std::uint32_t function, const UnwoundStack& stack, std::span<const Rule> rules,
             StackId id);
    /// Is there a stack that ends at what was no code, and is some now?
    [[nodiscard]] bool has_stray(const std::function<bool(std::uint64_t)>& is_code) const;
    /// Other code may be where some was: no stack is known.
    void clear();
    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    /// Was it that there is no room when add() failed the last time?
    [[nodiscard]] bool had_no_room() const { return had_no_room_; }

  private:
    struct Key {
        std::uint32_t parent = 0;
        std::uint64_t return_address = 0;
        friend bool operator==(const Key&, const Key&) = default;
        template <class H> friend H AbslHashValue(H h, const Key& key) {
            return H::combine(std::move(h), key.parent, key.return_address);
        }
    };
    /// 0: no room.
    std::uint32_t child(const Key& key, agent::Node node);
    [[nodiscard]] std::uint32_t free_slot(const Key& key) const;
    bool add_end(const Key& key, StackId id);

    CallTreeWriter& writer_;
    absl::flat_hash_map<Key, std::uint32_t> nodes_;
    std::vector<bool> taken_ = std::vector<bool>(agent::kChildSlots);
    std::set<std::uint32_t> pages_; ///< of slots, those that have a taken one
    std::vector<bool> parents_ = std::vector<bool>(agent::kMaxNodes); ///< those that have a child
    static constexpr std::uint32_t kMostStrays = 4096;
    /// By node, what was found in the place of its return address, and was no code.
    absl::flat_hash_map<std::uint32_t, absl::flat_hash_set<std::uint64_t>> strays_;
    static constexpr std::uint32_t kFirstNode = agent::kMaxFunctions + 1;
    std::uint32_t next_node_ = kFirstNode;
    bool had_no_room_ = false;
};

} // namespace memleax
