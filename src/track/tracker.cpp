// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/tracker.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace memleax {

namespace {

/// Blocks that one event lets expire, besides its own.
constexpr std::size_t kExpiredByAnEvent = 64;
/// No process has as many bytes: addresses of programs are below 2^56 on both CPUs. What asks for
/// more asks for something else (-1 may be "as you like"), and sums of it would mean nothing.
constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 56U;
/// In a batch, the tables' lines for an event are asked for so many events before.
constexpr std::size_t kAhead = 8;

} // namespace

Tracker::Tracker(const Options& options)
    : options_(options), notices_(options.notices),
      accounts_(stacks_, {options.memory_block_max, options.call_stack_max}, notices_),
      intervals_(options.interval_ns), mappings_(accounts_, intervals_, options.expire_ns),
      errors_(options.check, blocks_, events_, notices_) {}

StackId Tracker::intern(std::span<const FrameAddress> frames, StackEnd end) {
    return stacks_.intern(frames, end);
}

bool Tracker::wants_free_stack(RemoteAddr address) {
    return errors_.was_freed(address) && !blocks_.find(address); // the cheap one first
}

std::size_t Tracker::on_events(std::span<const AllocationEvent> events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
        if (i + kAhead < events.size()) {
            const RemoteAddr address = events[i + kAhead].address;
            blocks_.prefetch(address);
            errors_.prefetch(address);
        }
        if (!take(events[i])) {
            return i;
        }
    }
    return events.size();
}

bool Tracker::take(const AllocationEvent& event) {
    if (event.size >= kTooLarge) [[unlikely]] {
        AllocationEvent known = event;
        known.size = 0;
        return take(known);
    }
    switch (event.kind) {
    case EventKind::alloc:
        ++events_.alloc;
        add_block(event);
        break;
    case EventKind::brief:
        ++events_.alloc;
        pass_block(event);
        break;
    case EventKind::free:
        return free_block(event);
    case EventKind::failed_alloc:
        ++events_.failed_alloc;
        break;
    case EventKind::realloc_begin:
        begin_realloc(event);
        break;
    case EventKind::realloc_end:
        ++events_.realloc;
        finish_realloc(event);
        add_block(event);
        break;
    case EventKind::realloc_free:
        events_.free += finish_realloc(event) ? 1 : 0;
        break;
    case EventKind::realloc_failed:
        restore_realloc(event.tid, event.time);
        break;
    case EventKind::hidden_alloc:
        ++allocations_;
        errors_.on_hidden_alloc(event.address);
        break;
    case EventKind::unseen_alloc:
        on_unseen_alloc(event);
        break;
    }
    return true;
}

void Tracker::begin_realloc(const AllocationEvent& event) {
    restore_realloc(event.tid, event.time); // the end of one before was not told
    PendingRealloc pending;
    pending.block = blocks_.take(event.old_address);
    pending.stack = event.stack;
    pending.allocations = allocations_;
    if (!pending.block) {
        pending.is_wrong = errors_.is_wrong_free(event, event.old_address);
    } else {
        pending.by = errors_.on_free_called(event, *pending.block);
    }
    pending_.emplace(event.tid, pending);
}

void Tracker::restore_realloc(Tid tid, MonotonicNs time) {
    const auto it = pending_.find(tid);
    if (it == pending_.end()) {
        return;
    }
    const PendingRealloc pending = it->second;
    pending_.erase(it);
    if (!pending.block) {
        return;
    }
    errors_.on_free_withdrawn(blocks_[*pending.block], pending.by);
    put_back(*pending.block, time);
}

bool Tracker::finish_realloc(const AllocationEvent& event) {
    if (!pending_.contains(event.tid)) {
        begin_realloc(event);
    }
    const auto it = pending_.find(event.tid);
    const PendingRealloc pending = it->second;
    pending_.erase(it);
    if (pending.block) {
        // Memory that others were given meanwhile may be a part of this block's.
        const bool is_known = pending.allocations == allocations_;
        remove_block(*pending.block, event.time, is_known ? pending.stack : kNoStack);
    } else if (!pending.is_wrong) {
        ++events_.unknown_free;
    }
    return pending.block.has_value();
}

void Tracker::put_back(BlockId id, MonotonicNs time) {
    if (!blocks_.put_back(id)) {
        // Somebody else was given the address meanwhile, so the block must have ended.
        ++missed_frees_;
        remove_block(id, time);
    }
}

void Tracker::add_block(const AllocationEvent& event) {
    const Block block{event.address, event.size, event.time, event.stack, event.tid, false};
    if (!blocks_.insert(block).second) {
        ++missed_frees_;
        remove_block(*blocks_.take(event.address), event.time);
        blocks_.insert(block);
    }
    ++allocations_;
    errors_.on_alloc(event);
    accounts_[event.stack].alloc.add(event.size);
    intervals_.count_allocation(event.stack, event.time, event.size);
}

// As add_block() and free_block(), but for the table, if nobody could have seen it there.
void Tracker::pass_block(const AllocationEvent& event) {
    if (event.age >= options_.expire_ns || errors_.checks() || blocks_.find(event.address)) {
        add_block(event);
        AllocationEvent freed = event;
        freed.time = MonotonicNs(event.time.value() + event.age);
        freed.stack = kNoStack;
        (void)free_block(freed);
        return;
    }
    ++events_.free;
    ++allocations_;
    errors_.on_brief(event.address, event.stack);
    accounts_[event.stack].alloc.add(event.size);
    intervals_.count_allocation(event.stack, event.time, event.size);
    intervals_.count_free(event.stack, event.time, event.age, event.size);
    accounts_.count_end(event.stack, event.age, event.size, false, true);
}

bool Tracker::free_block(const AllocationEvent& event) {
    const auto id = blocks_.take(event.address);
    if (!id && event.if_live) {
        return false;
    }
    if (!id) {
        events_.unknown_free += errors_.is_wrong_free(event, event.address) ? 0 : 1;
        return true;
    }
    ++events_.free;
    (void)errors_.on_free_called(event, *id);
    remove_block(*id, event.time, event.stack);
    return true;
}

void Tracker::remove_block(BlockId id, MonotonicNs time, StackId freed_at) {
    Block block = blocks_[id];
    const std::int64_t age = std::max<std::int64_t>(time.value() - block.time.value(), 0);
    if (!block.expired && age >= options_.expire_ns) {
        expire_up_to(id);
        block.expired = true;
    }
    blocks_.release(id);
    errors_.on_freed(block, freed_at);
    intervals_.count_free(block.stack, block.time, age, block.size);
    accounts_.count_end(block.stack, age, block.size, block.expired, true);
}

std::optional<MonotonicNs> Tracker::next_expiry() const {
    auto oldest = blocks_.oldest_young();
    if (const auto mapped = mappings_.ranges().oldest_young()) {
        oldest = std::min(oldest.value_or(*mapped), *mapped);
    }
    return oldest ? std::optional(MonotonicNs(oldest->value() + options_.expire_ns)) : std::nullopt;
}

bool Tracker::expire(MonotonicNs now, std::size_t budget) {
    now = delivered_until(now);
    intervals_.tick(now);
    const MonotonicNs latest(now.value() - options_.expire_ns);
    for (; budget > 0; --budget) {
        const auto id = blocks_.next_to_expire(latest);
        if (!id) {
            return mappings_.expire(latest, budget);
        }
        expire_block(*id);
    }
    return true;
}

void Tracker::expire_up_to(BlockId id) {
    // In the order of their times, like expire(); but an event must not take long.
    const MonotonicNs birth = blocks_[id].time;
    for (std::size_t budget = kExpiredByAnEvent; budget > 0; --budget) {
        const auto older = blocks_.next_to_expire(MonotonicNs(birth.value() - 1));
        if (!older) {
            break;
        }
        expire_block(*older);
    }
    expire_block(id);
}

void Tracker::expire_block(BlockId id) {
    const Block block = blocks_[id];
    blocks_.mark_expired(id);
    accounts_.count_expired(block.stack, block.size);
}

void Tracker::on_unseen_alloc(const AllocationEvent& event) {
    ++allocations_;
    if (event.stack != kNoStack) { // else it is an allocator's own affair
        ++events_.unfollowed_alloc;
        CallStackAccount& account = accounts_[event.stack];
        account.unfollowed.add(event.size);
        account.why_unfollowed = event.unseen;
    }
    if (const auto replaced = blocks_.take(event.old_address)) {
        untrack_block(*replaced, event.time);
        errors_.on_untracked(event.old_address);
    }
    errors_.on_unseen_alloc();
}

void Tracker::untrack_block(BlockId id, MonotonicNs time) {
    const Block block = blocks_[id];
    blocks_.release(id);
    intervals_.count_free(block.stack, block.time,
                          std::max<std::int64_t>(time.value() - block.time.value(), 0), block.size);
    accounts_.count_untracked(block.stack, block.size, block.expired);
}

void Tracker::forget_live(MonotonicNs now) {
    blocks_.for_each([this](const Block& block) {
        accounts_.count_untracked(block.stack, block.size, block.expired);
    });
    set_aside_at_ = now;
    blocks_.clear();
    pending_.clear();
    errors_.forget_blocks();
    mappings_.forget();
    // Their shares of live blocks mean nothing any more.
    if (intervals_.recording()) {
        intervals_.start(now);
    }
    while (intervals_.drop_oldest()) {
    }
}

void Tracker::on_memory_gone(MonotonicNs time) {
    memory_gone_at_ = time;
    expire(time, std::numeric_limits<std::size_t>::max());
    for (const auto& [tid, pending] : std::exchange(pending_, {})) {
        if (pending.block) {
            remove_block(*pending.block, time);
        }
    }
    std::vector<RemoteAddr> addresses;
    blocks_.for_each([&](const Block& block) { addresses.push_back(block.address); });
    for (const RemoteAddr address : addresses) {
        if (const auto id = blocks_.take(address)) {
            remove_block(*id, time);
        }
    }
    mappings_.end_all(time);
    faults_.on_memory_gone();
    errors_.on_memory_gone(); // the new program's addresses are others, whatever their numbers
}

} // namespace memleax
