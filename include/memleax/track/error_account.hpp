// SPDX-License-Identifier: GPL-3.0-or-later
/// Frees that are wrong: of what was freed before, of what is no block, by the wrong function.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/track/block_checker.hpp"
#include "memleax/track/event_counts.hpp"
#include "memleax/track/freed_blocks.hpp"
#include "memleax/track/live_blocks.hpp"
#include "memleax/track/memory_error.hpp"
#include "memleax/track/notice_queue.hpp"

namespace memleax {

/// Hears of each allocation and free, and remembers what it takes to judge the frees to come. What
/// is not known for certain is no error.
class ErrorAccount {
  public:
    /// `check`: looks for all kinds of MemoryError. `blocks` are the live ones, of which this is
    /// told; errors are counted in `events`, and told to `notices`. All of them outlive this.
    ErrorAccount(bool check, const LiveBlocks& blocks, EventCounts& events, NoticeQueue& notices);

    [[nodiscard]] bool checks() const { return checker_.has_value(); }
    /// Each error once, in order of their numbers.
    [[nodiscard]] const std::vector<MemoryError>& all() const { return errors_.all(); }
    /// Was the block at this address freed, as far as we know, and the address not given out again?
    [[nodiscard]] bool was_freed(RemoteAddr address) const {
        return freed_.find(address).has_value();
    }
    /// This address will be asked for soon.
    void prefetch(RemoteAddr address) const { freed_.prefetch(address); }

    /// A block was allocated.
    void on_alloc(const AllocationEvent& event) {
        freed_.forget(event.address);
        if (checker_ && event.by != AllocatedBy::no_memory) {
            // It may be what an operator new has got, from a call that is not followed itself.
            checker_->add(event.address, event.size, sees_all_ ? event.by : AllocatedBy::unclear);
        }
    }
    /// A block, allocated at `stack`, has come and gone. Not with checks().
    void on_brief(RemoteAddr address, StackId stack) {
        if (remembers()) {
            freed_.remember(address, stack);
        }
    }
    /// The address was given to somebody whom we do not follow.
    void on_hidden_alloc(RemoteAddr address) {
        freed_.forget(address);
        if (checker_) {
            checker_->forget(address);
        }
    }
    /// A function is called that is to free this live block: is it of the right kind? By what the
    /// block had been allocated.
    AllocatedBy on_free_called(const AllocationEvent& event, BlockId id) {
        return checker_ ? check_free(event, id) : AllocatedBy::unclear;
    }
    /// That function has not freed it: a realloc has failed.
    void on_free_withdrawn(const Block& block, AllocatedBy by) {
        if (checker_ && !blocks_.find(block.address) && by != AllocatedBy::no_memory) {
            checker_->add(block.address, block.size, by);
        }
    }
    /// A block was freed, and is none of `blocks` any more; `freed_at` is kNoStack if it is not
    /// known.
    void on_freed(const Block& block, StackId freed_at) {
        // Between a realloc's begin and end the address may have become another block's.
        if (remembers() && !blocks_.find(block.address) &&
            freed_.remember_new(block.address, block.stack) && checker_ && freed_at != kNoStack) {
            checker_->remember(block.address, block.size, block.stack, freed_at);
        }
    }
    /// The event frees what is not live: is that known to be wrong? If so it is counted, and told.
    bool is_wrong_free(const AllocationEvent& event, RemoteAddr address);
    /// Nobody will know whether the block here was freed.
    void on_untracked(RemoteAddr address) {
        if (checker_) {
            (void)checker_->remove(address);
        }
    }
    /// There are blocks from now on that we do not know of: what is freed is not remembered any
    /// more.
    void on_unseen_alloc();
    /// EventSink's.
    void on_earlier_calls(bool any) { earlier_calls_ = any; }
    /// Allocations and frees were missed.
    void forget_blocks();
    /// The process has ended: nothing will be freed any more. Errors stay.
    void on_process_ended();
    /// The memory, and all blocks that we did not know of, are gone.
    void on_memory_gone() {
        sees_all_ = true;
        forget_blocks();
    }

  private:
    /// Is what is freed remembered?
    [[nodiscard]] bool remembers() const { return sees_all_ && !earlier_calls_; }
    [[nodiscard]] std::optional<MemoryError> find_error(RemoteAddr address, bool never_allocated);
    AllocatedBy check_free(const AllocationEvent& event, BlockId id);
    void check_function(const AllocationEvent& event, const Block& block);
    void report(MemoryError error, const AllocationEvent& event);

    const LiveBlocks& blocks_;
    EventCounts& events_;
    NoticeQueue& notices_;
    FreedBlocks freed_;
    std::optional<BlockChecker> checker_; ///< with checks()
    MemoryErrors errors_;
    bool sees_all_ = true;       ///< see on_unseen_alloc()
    bool earlier_calls_ = false; ///< may still be under way
};

} // namespace memleax
