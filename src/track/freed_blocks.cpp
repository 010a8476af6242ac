// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/freed_blocks.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include <sys/mman.h>

namespace memleax {

namespace {

/// Less would take a page all the same, and one of the mappings that a process may have
/// (vm.max_map_count).
constexpr std::size_t kMapped = 4096;

} // namespace

FreedBlocks::FreedBlocks(std::size_t capacity)
    // At least two sets: shifting a hash by all its 64 bits is not defined.
    : set_bits_(static_cast<unsigned>(
          std::bit_width(std::max<std::size_t>((capacity + kSlots - 1) / kSlots, 2) - 1))) {
    const std::size_t bytes = sizeof(Set) << set_bits_;
    if (bytes < kMapped) {
        sets_ = std::unique_ptr<Set[], Unmap>(new Set[bytes / sizeof(Set)](), Unmap{bytes});
        return;
    }
    // mmap, not new: zeroed, aligned, and a set that is never used takes no memory. Shared, because
    // RLIMIT_DATA counts what is mapped, not what is used: the tables of a hundred processes
    // (--follow-forks) are more than a small machine has.
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    sets_ = std::unique_ptr<Set[], Unmap>(static_cast<Set*>(memory), Unmap{bytes});
}

void FreedBlocks::Unmap::operator()(Set* sets) const {
    if (bytes < kMapped) {
        delete[] sets;
    } else {
        munmap(sets, bytes);
    }
}

void FreedBlocks::remember(RemoteAddr address, StackId stack) {
    Set& set = set_of(address);
    put_in_front(&set, position(set, address), address, stack);
}

bool FreedBlocks::remember_new(RemoteAddr address, StackId stack) {
    Set& set = set_of(address);
    const std::size_t place = position(set, address);
    if (place == kSlots) {
        put_in_front(&set, place, address, stack);
    }
    return place == kSlots;
}

void FreedBlocks::put_in_front(Set* set, std::size_t place, RemoteAddr address, StackId stack) {
    // Everything before its old place, or all but the oldest.
    for (std::size_t i = std::min(place, kSlots - 1); i > 0; --i) {
        set->addresses[i] = set->addresses[i - 1];
        set->stacks[i] = set->stacks[i - 1];
    }
    set->addresses[0] = address.value();
    set->stacks[0] = stack.value();
}

void FreedBlocks::forget(RemoteAddr address) {
    Set& set = set_of(address);
    const std::size_t place = position(set, address);
    if (place == kSlots) {
        return;
    }
    for (std::size_t i = place; i + 1 < kSlots; ++i) {
        set.addresses[i] = set.addresses[i + 1];
        set.stacks[i] = set.stacks[i + 1];
    }
    set.addresses[kSlots - 1] = 0;
}

std::optional<StackId> FreedBlocks::find(RemoteAddr address) const {
    const Set& set = set_of(address);
    const std::size_t place = position(set, address);
    return place == kSlots ? std::nullopt : std::optional(StackId(set.stacks[place]));
}

std::size_t FreedBlocks::position(const Set& set, RemoteAddr address) {
    return static_cast<std::size_t>(
        std::find(set.addresses.begin(), set.addresses.end(), address.value()) -
        set.addresses.begin());
}

} // namespace memleax
