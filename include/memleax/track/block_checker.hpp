// SPDX-License-Identifier: GPL-3.0-or-later
/// Blocks by where they lie, the live ones and those that were freed last: what tells that an
/// address which is no block's is within one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <absl/container/btree_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"

namespace memleax {

/// Only with --check. A live block takes some 24 bytes here; of the freed ones the last
/// `remembered` are known, in at most 8 MiB.
///
/// What is known of a place is forgotten whenever it is not certain any more. Memory that has been
/// given out again, to whomever, is not freed; and a live block in which another one begins is
/// somebody's pool, or has ended without our seeing it: neither is a reason to call a free wrong.
class BlockChecker {
  public:
    static constexpr std::size_t kRemembered = std::size_t{1} << 17U;

    explicit BlockChecker(std::size_t remembered = kRemembered);

    void add(RemoteAddr address, std::uint64_t size, AllocatedBy by);
    /// The block is live no longer; by what it had been allocated.
    AllocatedBy remove(RemoteAddr address);
    /// A block that has ended was freed at `free_stack`.
    void remember(RemoteAddr address, std::uint64_t size, StackId alloc_stack, StackId free_stack);
    /// Any memory that is not a live block's may have been given to somebody.
    void forget_freed() { freed_.clear(); }
    /// Memory that begins here was given to somebody whom we do not follow.
    void forget(RemoteAddr address);

    struct Freed {
        bool found = false;
        RemoteAddr address{};
        std::uint64_t size = 0;
        StackId alloc_stack = kNoStack;
        StackId free_stack = kNoStack;
    };
    /// The live block that this address, not its own, lies in.
    [[nodiscard]] std::optional<RemoteAddr> live_around(RemoteAddr address) const;
    /// The freed block that this address lies in, or is the address of, if there is one.
    [[nodiscard]] Freed freed_around(RemoteAddr address) const;
    [[nodiscard]] AllocatedBy allocated_by(RemoteAddr address) const;

  private:
    struct Live {
        std::uint64_t size : 60;
        std::uint64_t by : 4;
    };
    struct Past {
        std::uint64_t size;
        std::uint32_t turn; ///< when it was remembered
        StackId alloc_stack;
        StackId free_stack;
    };

    absl::btree_map<std::uint64_t, Live> live_;  ///< they do not overlap
    absl::btree_map<std::uint64_t, Past> freed_; ///< likewise
    struct Turn {
        std::uint64_t address = 0;
        std::uint32_t turn = 0;
    };
    std::vector<Turn> turns_; ///< a ring
    std::uint32_t next_turn_ = 1;
};

} // namespace memleax
