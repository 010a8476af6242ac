// SPDX-License-Identifier: GPL-3.0-or-later
/// What a program does wrong with its blocks, as far as their beginnings and ends show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"

namespace memleax {

struct MemoryError {
    enum class Kind : std::uint8_t {
        double_free,     ///< the block had been freed, and its address not given out again
        realloc_freed,   ///< the same, by a realloc
        inside_block,    ///< not the address of a block, but one within it
        inside_freed,    ///< within a block that had been freed
        never_allocated, ///< no allocator has ever given this address
        mismatch         ///< `freed_by` does not end what `allocated_by` begins
    };
    Kind kind{};
    bool by_realloc = false; ///< else by a free
    AllocatedBy allocated_by = AllocatedBy::unclear;
    AllocatedBy freed_by = AllocatedBy::unclear;
    RemoteAddr address;              ///< what was freed
    RemoteAddr block;                ///< the block that it is, or lies in
    std::uint64_t size = 0;          ///< of the block, if that is known
    StackId free_stack = kNoStack;   ///< where it happened
    StackId freed_before = kNoStack; ///< where the block had been freed, if that is known
    StackId alloc_stack = kNoStack;  ///< where the block was allocated, if that is known
    Tid tid;
    MonotonicNs time;         ///< of the first
    std::uint32_t number = 0; ///< as people see it: 1, 2, ...
    std::uint64_t count = 0;  ///< how often, at these call stacks
};

/// "double_free", "inside_block", ... as in the JSON report.
const char* name_of(MemoryError::Kind kind);

/// Each error once, by its kind and its call stacks. A program that does wrong all the time fills
/// no more than kMost places; what is beyond is not kept.
class MemoryErrors {
  public:
    static constexpr std::size_t kMost = 1000;

    /// The error as it is known now, with its count and number; null if there is no room for it.
    const MemoryError* add(const MemoryError& error);
    /// In order of their numbers.
    [[nodiscard]] const std::vector<MemoryError>& all() const { return errors_; }

  private:
    struct Key {
        MemoryError::Kind kind;
        bool by_realloc;
        StackId free_stack;
        StackId freed_before;
        StackId alloc_stack;
        friend bool operator==(const Key&, const Key&) = default;
        template <class H> friend H AbslHashValue(H h, const Key& key) {
            return H::combine(std::move(h), key.kind, key.by_realloc, key.free_stack.value(),
                              key.freed_before.value(), key.alloc_stack.value());
        }
    };
    std::vector<MemoryError> errors_;
    absl::flat_hash_map<Key, std::size_t> places_;
};

} // namespace memleax
