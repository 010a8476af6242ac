// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/tracker.hpp"

#include <algorithm>

#include "memleax/error.hpp"

namespace memleax {

namespace {

/// After so many frees of expired blocks a call stack is taken for a cache, and is not shown any
/// more while the session runs (the original memleax's rule).
constexpr std::uint64_t kShownExpiredFrees = 3;
/// Notices that wait to be printed. A stack that lets blocks expire faster than they can be printed
/// is known by its first ones.
constexpr std::size_t kMaxNotices = 10'000;

} // namespace

Tracker::Tracker(const Options& options) : options_(options) {}

CallStackAccount& Tracker::account_of(StackId id) {
    if (id.value() >= accounts_.size()) {
        accounts_.resize(stacks_.size());
    }
    MEMLEAX_ASSERT(id.value() < accounts_.size());
    return accounts_[id.value()];
}

const CallStackAccount& Tracker::account(StackId id) const {
    static const CallStackAccount none;
    return id.value() < accounts_.size() ? accounts_[id.value()] : none;
}

StackId Tracker::intern(std::span<const FrameAddress> frames, StackEnd end) {
    return stacks_.intern(frames, end);
}

bool Tracker::wants_free_stack(RemoteAddr address) {
    return !blocks_.find(address) && freed_.find(address).has_value();
}

void Tracker::on_event(const AllocationEvent& event) {
    switch (event.kind) {
    case EventKind::alloc:
        ++events_.alloc;
        begin_block(event);
        break;
    case EventKind::free:
        free_block(event);
        break;
    case EventKind::failed_alloc:
        ++events_.failed_alloc;
        break;
    case EventKind::realloc_begin:
        if (const auto held = take_held(event.tid)) {
            put_back(*held, event.time); // its end was not told
        }
        if (const auto old = blocks_.take(event.old_address)) {
            held_.emplace(event.tid, *old);
        }
        break;
    case EventKind::realloc_end:
        ++events_.realloc;
        if (const auto old = take_held(event.tid)) {
            end_block(*old, event.time);
        } else {
            count_unknown(event.old_address, event.stack);
        }
        begin_block(event);
        break;
    case EventKind::realloc_free:
        if (const auto old = take_held(event.tid)) {
            ++events_.free;
            end_block(*old, event.time);
        } else {
            count_unknown(event.old_address, event.stack);
        }
        break;
    case EventKind::realloc_failed:
        if (const auto old = take_held(event.tid)) {
            put_back(*old, event.time);
        }
        break;
    }
}

std::optional<BlockId> Tracker::take_held(Tid tid) {
    const auto it = held_.find(tid);
    if (it == held_.end()) {
        return std::nullopt;
    }
    const BlockId id = it->second;
    held_.erase(it);
    return id;
}

void Tracker::put_back(BlockId id, MonotonicNs time) {
    if (!blocks_.put_back(id)) {
        // Somebody else was given the address meanwhile, so the block must have ended.
        ++missed_frees_;
        end_block(id, time);
    }
}

void Tracker::begin_block(const AllocationEvent& event) {
    const Block block{event.address, event.size, event.time, event.stack, event.tid, false};
    if (!blocks_.insert(block).second) {
        ++missed_frees_;
        end_block(*blocks_.take(event.address), event.time);
        blocks_.insert(block);
    }
    freed_.forget(event.address);
    account_of(event.stack).alloc.add(event.size);
}

void Tracker::free_block(const AllocationEvent& event) {
    const auto id = blocks_.take(event.address);
    if (!id) {
        count_unknown(event.address, event.stack);
        return;
    }
    ++events_.free;
    end_block(*id, event.time);
}

void Tracker::count_unknown(RemoteAddr address, StackId free_stack) {
    const auto allocated_at = freed_.find(address);
    if (!allocated_at) {
        ++events_.unknown_free;
        return;
    }
    ++events_.double_free;
    notify({.kind = Notice::Kind::double_free,
            .stack = *allocated_at,
            .free_stack = free_stack,
            .address = address});
}

void Tracker::end_block(BlockId id, MonotonicNs time) {
    const Block block = blocks_[id];
    blocks_.release(id);
    freed_.remember(block.address, block.stack);
    CallStackAccount& account = account_of(block.stack);
    const std::int64_t age = std::max<std::int64_t>(time.value() - block.time.value(), 0);
    account.lifetime_min = account.free.blocks == 0 ? age : std::min(account.lifetime_min, age);
    account.lifetime_max = std::max(account.lifetime_max, age);
    account.lifetime_sum += static_cast<double>(age);
    account.free.add(block.size);
    if (!block.expired) {
        return;
    }
    account.free_expired.add(block.size);
    const std::uint64_t times = account.free_expired.blocks;
    if (times <= kShownExpiredFrees) {
        notify({.kind = Notice::Kind::expired_freed,
                .stack = block.stack,
                .id = account.id,
                .age = age});
    }
    if (times == kShownExpiredFrees) {
        notify(
            {.kind = Notice::Kind::too_many_expired_free, .stack = block.stack, .id = account.id});
    }
}

std::optional<MonotonicNs> Tracker::next_expiry() const {
    const auto oldest = blocks_.oldest_young();
    return oldest ? std::optional(MonotonicNs(oldest->value() + options_.expire_ns)) : std::nullopt;
}

bool Tracker::expire(MonotonicNs now, std::size_t budget) {
    const MonotonicNs latest(now.value() - options_.expire_ns);
    for (; budget > 0; --budget) {
        const auto id = blocks_.next_to_expire(latest);
        if (!id) {
            return false;
        }
        expire_block(*id);
    }
    return true;
}

void Tracker::expire_block(BlockId id) {
    const Block block = blocks_[id];
    blocks_.mark_expired(id);
    CallStackAccount& account = account_of(block.stack);
    account.expired.add(block.size);
    number(block.stack);
    const bool first = account.expired.blocks == 1;
    stacks_expired_ += first ? 1 : 0;
    if (account.free_expired.blocks < kShownExpiredFrees) {
        notify({.kind = Notice::Kind::expired,
                .stack = block.stack,
                .id = account.id,
                .size = block.size,
                .count = account.expired.blocks});
    }
    if (options_.memory_block_max != 0 && account.expired.blocks == options_.memory_block_max) {
        notify({.kind = Notice::Kind::block_limit,
                .stack = block.stack,
                .id = account.id,
                .count = account.expired.blocks});
    }
    if (first && options_.call_stack_max != 0 && stacks_expired_ == options_.call_stack_max) {
        notify({.kind = Notice::Kind::stack_limit, .count = stacks_expired_});
    }
}

std::uint32_t Tracker::number(StackId id) {
    CallStackAccount& account = account_of(id);
    if (account.id == 0) {
        account.id = next_number_++;
    }
    return account.id;
}

void Tracker::notify(const Notice& notice) {
    const bool limit =
        notice.kind == Notice::Kind::block_limit || notice.kind == Notice::Kind::stack_limit;
    // A stack's first expiry comes with its backtrace; without it the later lines mean nothing.
    const bool first = notice.kind == Notice::Kind::expired && notice.count == 1;
    if (limit || (options_.notices && (first || notices_.size() < kMaxNotices))) {
        notices_.push_back(notice);
    }
}

std::vector<Notice> Tracker::take_notices() {
    return std::exchange(notices_, {});
}

void Tracker::on_memory_gone(MonotonicNs time) {
    for (const auto& [tid, id] : std::exchange(held_, {})) {
        end_block(id, time);
    }
    std::vector<RemoteAddr> addresses;
    blocks_.for_each([&](const Block& block) { addresses.push_back(block.address); });
    for (const RemoteAddr address : addresses) {
        if (const auto id = blocks_.take(address)) {
            end_block(*id, time);
        }
    }
}

} // namespace memleax
