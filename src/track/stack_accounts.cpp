// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/stack_accounts.hpp"

#include <algorithm>

#include "memleax/base/error.hpp"
#include "memleax/base/power_of_ten.hpp"

namespace memleax {

namespace {

/// After so many frees of expired blocks a call stack is taken for a cache, and is not shown any
/// more while the session runs (the original memleax's rule).
constexpr std::uint64_t kShownExpiredFrees = 3;
} // namespace

CallStackAccount& StackAccounts::operator[](StackId id) {
    if (id.value() >= accounts_.size()) {
        accounts_.resize(stacks_.size());
    }
    MEMLEAX_ASSERT(id.value() < accounts_.size());
    return accounts_[id.value()];
}

const CallStackAccount& StackAccounts::find(StackId id) const {
    static const CallStackAccount none;
    return id.value() < accounts_.size() ? accounts_[id.value()] : none;
}

std::uint32_t StackAccounts::number(StackId id) {
    CallStackAccount& account = (*this)[id];
    if (account.id == 0) {
        account.id = next_number_++;
    }
    return account.id;
}

void StackAccounts::count_expired(StackId id, std::uint64_t size) {
    CallStackAccount& account = (*this)[id];
    account.expired.add(size);
    number(id);
    const bool first = account.expired.blocks == 1;
    stacks_expired_ += first ? 1 : 0;
    if (account.free_expired.blocks < kShownExpiredFrees &&
        is_power_of_ten(account.expired.blocks)) {
        notices_.add({.kind = Notice::Kind::expired,
                      .stack = id,
                      .id = account.id,
                      .size = size,
                      .count = account.expired.blocks});
    }
    if (limits_.blocks != 0 && account.expired.blocks == limits_.blocks) {
        notices_.add({.kind = Notice::Kind::block_limit,
                      .stack = id,
                      .id = account.id,
                      .count = account.expired.blocks});
    }
    if (first && limits_.stacks != 0 && stacks_expired_ == limits_.stacks) {
        notices_.add({.kind = Notice::Kind::stack_limit, .count = stacks_expired_});
    }
}

void StackAccounts::count_end(StackId id, std::int64_t age, std::uint64_t size, bool expired,
                              bool whole) {
    CallStackAccount& account = (*this)[id];
    if (!whole) {
        account.free.bytes += size;
        account.free_expired.bytes += expired ? size : 0;
        return;
    }
    account.lifetime_min = account.free.blocks == 0 ? age : std::min(account.lifetime_min, age);
    account.lifetime_max = std::max(account.lifetime_max, age);
    account.lifetime_sum += static_cast<double>(age);
    account.free.add(size);
    if (!expired) {
        return;
    }
    account.free_expired.add(size);
    const std::uint64_t times = account.free_expired.blocks;
    if (times <= kShownExpiredFrees) {
        notices_.add(
            {.kind = Notice::Kind::expired_freed, .stack = id, .id = account.id, .age = age});
    }
    if (times == kShownExpiredFrees) {
        notices_.add({.kind = Notice::Kind::too_many_expired_free, .stack = id, .id = account.id});
    }
}

void StackAccounts::count_untracked(StackId id, std::uint64_t size, bool expired) {
    CallStackAccount& account = (*this)[id];
    account.untracked.add(size);
    if (expired) {
        account.untracked_expired.add(size);
    }
}

} // namespace memleax
