// SPDX-License-Identifier: GPL-3.0-or-later
/// What each call stack has allocated, freed, let expire; blocks of the heap and mappings alike.
#pragma once

#include <cstdint>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/track/block_count.hpp"
#include "memleax/track/mapped_ranges.hpp"
#include "memleax/track/notice_queue.hpp"
#include "memleax/track/stack_table.hpp"

namespace memleax {

/// What happened at one call stack. Its blocks are mappings if its kind is not heap: one counts as
/// ended with its last byte, and its bytes as they go.
struct CallStackAccount {
    std::uint32_t id = 0; ///< the number that people see: 1, 2, ... by first expiry; 0: none yet
    MemoryKind kind = MemoryKind::heap; ///< a stack has one: its innermost function tells
    BlockCount alloc;                   ///< began here
    BlockCount free;                    ///< of those, ended
    BlockCount expired;                 ///< of those, lived longer than the expire threshold
    BlockCount free_expired;            ///< of those, ended after that
    BlockCount untracked;               ///< began here, and nobody knows whether they ended
    BlockCount untracked_expired;       ///< of those, expired
    std::int64_t lifetime_min = 0;      ///< ns, of the ended ones
    std::int64_t lifetime_max = 0;
    double lifetime_sum = 0;
    BlockCount unfollowed; ///< allocations called from here of which nobody knows what they gave
    Unseen why_unfollowed = Unseen::generated_code;

    [[nodiscard]] BlockCount live() const { return alloc - free - untracked; }
    /// Expired and still there.
    [[nodiscard]] BlockCount may_leak() const { return expired - free_expired - untracked_expired; }
};

class StackAccounts {
  public:
    struct Limits {
        std::uint64_t blocks = 0; ///< expired blocks at one stack; 0: no limit
        std::uint64_t stacks = 0; ///< stacks with expired blocks; 0: no limit
    };
    /// Of the stacks of this table. What comes up goes to `notices`. Both must outlive it.
    StackAccounts(const StackTable& stacks, Limits limits, NoticeQueue& notices)
        : stacks_(stacks), limits_(limits), notices_(notices) {}

    /// To count in. The stack must be one of the table's.
    [[nodiscard]] CallStackAccount& operator[](StackId id);
    /// An empty one if nothing has been counted.
    [[nodiscard]] const CallStackAccount& find(StackId id) const;
    /// Gives the stack its number, if it has none.
    std::uint32_t number(StackId id);

    /// A block expires.
    void count_expired(StackId id, std::uint64_t size);
    /// Bytes end, at this age in ns, of a block that lives on if it is not `whole`.
    void count_end(StackId id, std::int64_t age, std::uint64_t size, bool expired, bool whole);
    /// A block of which nobody will know whether it has ended.
    void count_untracked(StackId id, std::uint64_t size, bool expired);

  private:
    const StackTable& stacks_;
    Limits limits_;
    NoticeQueue& notices_;
    std::vector<CallStackAccount> accounts_; ///< by StackId
    std::uint32_t next_number_ = 1;
    std::uint64_t stacks_expired_ = 0;
};

} // namespace memleax
