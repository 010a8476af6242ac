// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/error_account.hpp"

#include "memleax/base/power_of_ten.hpp"

namespace memleax {

namespace {

/// Can a function of this kind not free what one of that kind has allocated?
bool do_not_match(AllocatedBy allocated, AllocatedBy freed) {
    const auto is_clear = [](AllocatedBy by) {
        return by != AllocatedBy::unclear && by != AllocatedBy::no_memory;
    };
    return is_clear(allocated) && is_clear(freed) && allocated != freed;
}

} // namespace

ErrorAccount::ErrorAccount(bool check, const LiveBlocks& blocks, EventCounts& events,
                           NoticeQueue& notices)
    : blocks_(blocks), events_(events), notices_(notices) {
    if (check) {
        checker_.emplace();
    }
}

bool ErrorAccount::is_wrong_free(const AllocationEvent& event, RemoteAddr address) {
    auto error = find_error(address, event.never_allocated);
    if (!error) {
        return false;
    }
    error->by_realloc = event.kind != EventKind::free;
    if (error->kind == MemoryError::Kind::double_free) {
        ++events_.double_free;
        error->kind =
            error->by_realloc ? MemoryError::Kind::realloc_freed : MemoryError::Kind::double_free;
    } else {
        ++events_.invalid_free;
    }
    error->address = address;
    report(*error, event);
    return true;
}

std::optional<MemoryError> ErrorAccount::find_error(RemoteAddr address, bool never_allocated) {
    BlockChecker::Freed around;
    if (checker_) {
        around = checker_->freed_around(address);
    }
    MemoryError error;
    if (const auto allocated_at = freed_.find(address)) {
        error.kind = MemoryError::Kind::double_free;
        error.alloc_stack = *allocated_at;
        error.block = address;
        if (around.found && around.address == address) {
            error.size = around.size;
            error.freed_before = around.free_stack;
        }
        return error;
    }
    if (!checker_ || !sees_all_) {
        return std::nullopt;
    }
    if (const auto live = checker_->live_around(address)) {
        if (const auto id = blocks_.find(*live)) {
            const Block block = blocks_[*id];
            error.kind = MemoryError::Kind::inside_block;
            error.block = block.address;
            error.size = block.size;
            error.alloc_stack = block.stack;
            return error;
        }
    }
    if (around.found) {
        error.kind = around.address == address ? MemoryError::Kind::double_free
                                               : MemoryError::Kind::inside_freed;
        error.block = around.address;
        error.size = around.size;
        error.alloc_stack = around.alloc_stack;
        error.freed_before = around.free_stack;
        return error;
    }
    if (never_allocated) {
        error.kind = MemoryError::Kind::never_allocated;
        return error;
    }
    return std::nullopt;
}

AllocatedBy ErrorAccount::check_free(const AllocationEvent& event, BlockId id) {
    const Block block = blocks_[id];
    check_function(event, block);
    return checker_->remove(block.address);
}

void ErrorAccount::check_function(const AllocationEvent& event, const Block& block) {
    const AllocatedBy allocated = checker_->allocated_by(block.address);
    if (!do_not_match(allocated, event.by)) {
        return;
    }
    ++events_.mismatched_free;
    MemoryError error;
    error.kind = MemoryError::Kind::mismatch;
    error.by_realloc = event.kind != EventKind::free;
    error.allocated_by = allocated;
    error.freed_by = event.by;
    error.address = error.block = block.address;
    error.size = block.size;
    error.alloc_stack = block.stack;
    report(error, event);
}

void ErrorAccount::report(MemoryError error, const AllocationEvent& event) {
    error.free_stack = event.stack;
    error.tid = event.tid;
    error.time = event.time;
    const MemoryError* known = errors_.add(error);
    if (known != nullptr && is_power_of_ten(known->count)) {
        const StackId stack = error.alloc_stack != kNoStack ? error.alloc_stack : error.free_stack;
        notices_.add({.kind = Notice::Kind::memory_error, .stack = stack, .error = *known});
    }
}

void ErrorAccount::on_unseen_alloc() {
    if (sees_all_) {
        sees_all_ = false;
        freed_ = FreedBlocks();
        if (checker_) {
            checker_->forget_freed();
        }
    }
}

// As small as they come: 16 MiB of addresses, and 2 MiB of the checker's, for each child that there
// has been (--follow-forks) are more than there is.
void ErrorAccount::on_process_ended() {
    freed_ = FreedBlocks(1);
    if (checker_) {
        checker_.emplace(1);
    }
}

void ErrorAccount::forget_blocks() {
    freed_ = FreedBlocks();
    if (checker_) {
        checker_.emplace();
    }
}

} // namespace memleax
