// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/block_checker.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// malloc(0) gives an address of its own, too. No block reaches beyond the address space.
std::uint64_t end_of(std::uint64_t begin, std::uint64_t size) {
    const std::uint64_t end = begin + std::max<std::uint64_t>(size, 1);
    return end > begin ? end : ~std::uint64_t{0};
}

/// The entry that holds this address; end() if none does.
template <class Map> auto around(Map& map, std::uint64_t address) {
    auto it = map.upper_bound(address);
    if (it == map.begin()) {
        return map.end();
    }
    --it;
    return end_of(it->first, it->second.size) > address ? it : map.end();
}

/// All entries that have something of [begin, end).
template <class Map> void erase_overlapping(Map& map, std::uint64_t begin, std::uint64_t end) {
    auto it = around(map, begin);
    if (it == map.end()) {
        it = map.lower_bound(begin);
    }
    while (it != map.end() && it->first < end) {
        it = map.erase(it);
    }
}

} // namespace

BlockChecker::BlockChecker(std::size_t remembered) : turns_(std::max<std::size_t>(remembered, 1)) {}

void BlockChecker::add(RemoteAddr address, std::uint64_t size, AllocatedBy by) {
    constexpr std::uint64_t kMost = (std::uint64_t{1} << 60U) - 1;
    const std::uint64_t begin = address.value();
    const std::uint64_t end = end_of(begin, std::min(size, kMost));
    erase_overlapping(freed_, begin, end);
    erase_overlapping(live_, begin, end);
    Live live{};
    live.size = std::min(size, kMost);
    live.by = static_cast<std::uint64_t>(by);
    live_.emplace(begin, live);
}

AllocatedBy BlockChecker::remove(RemoteAddr address) {
    const AllocatedBy by = allocated_by(address);
    live_.erase(address.value());
    return by;
}

AllocatedBy BlockChecker::allocated_by(RemoteAddr address) const {
    const auto it = live_.find(address.value());
    return it == live_.end() ? AllocatedBy::unclear : static_cast<AllocatedBy>(it->second.by);
}

void BlockChecker::remember(RemoteAddr address, std::uint64_t size, StackId alloc_stack,
                            StackId free_stack) {
    const std::uint64_t begin = address.value();
    const std::uint64_t end = end_of(begin, size);
    const auto live = live_.lower_bound(begin);
    if (around(live_, begin) != live_.end() || (live != live_.end() && live->first < end)) {
        return; // somebody else has it, or a part of it, already
    }
    erase_overlapping(freed_, begin, end);
    const std::uint32_t turn = next_turn_++;
    Turn& place = turns_[turn % turns_.size()];
    const auto oldest = freed_.find(place.address);
    if (oldest != freed_.end() && oldest->second.turn == place.turn) {
        freed_.erase(oldest);
    }
    place = {begin, turn};
    freed_.emplace(begin, Past{size, turn, alloc_stack, free_stack});
}

void BlockChecker::forget(RemoteAddr address) {
    erase_overlapping(freed_, address.value(), address.value() + 1);
    erase_overlapping(live_, address.value(), address.value() + 1);
}

std::optional<RemoteAddr> BlockChecker::live_around(RemoteAddr address) const {
    const auto it = around(live_, address.value());
    return it == live_.end() ? std::nullopt : std::optional(RemoteAddr(it->first));
}

BlockChecker::Freed BlockChecker::freed_around(RemoteAddr address) const {
    const auto it = around(freed_, address.value());
    if (it == freed_.end()) {
        return {};
    }
    const Past& past = it->second;
    return {true, RemoteAddr(it->first), past.size, past.alloc_stack, past.free_stack};
}

} // namespace memleax
