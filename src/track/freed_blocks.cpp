// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/freed_blocks.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include <sys/mman.h>

#include "memleax/track/address_hash.hpp"

namespace memleax {

FreedBlocks::FreedBlocks(std::size_t capacity)
    // At least two sets: shifting a hash by all its 64 bits is not defined.
    : set_bits_(static_cast<unsigned>(
          std::bit_width(std::max<std::size_t>((capacity + kSlots - 1) / kSlots, 2) - 1))) {
    // mmap, not new: zeroed, aligned, and a set that is never used takes no memory. Shared, because
    // RLIMIT_DATA counts what is mapped, not what is used: the tables of a hundred processes
    // (--follow-forks) are more than a small machine has.
    const std::size_t bytes = sizeof(Set) << set_bits_;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    sets_ = std::unique_ptr<Set[], Unmap>(static_cast<Set*>(memory), Unmap{bytes});
}

void FreedBlocks::Unmap::operator()(Set* sets) const {
    munmap(sets, bytes);
}

void FreedBlocks::remember(RemoteAddr address, StackId stack) {
    Set& set = set_of(address);
    // Everything before its old place, or all but the oldest, makes room at the front.
    const std::size_t last = std::min(position(set, address), kSlots - 1);
    for (std::size_t i = last; i > 0; --i) {
        set.addresses[i] = set.addresses[i - 1];
        set.stacks[i] = set.stacks[i - 1];
    }
    set.addresses[0] = address.value();
    set.stacks[0] = stack.value();
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

// A set for each 64 bytes, and pages in their order as far as the table goes. The next ones that
// take the same sets do so in another order; and each page has its own, as blocks of whole pages
// would else all begin in the same few.
FreedBlocks::Set& FreedBlocks::set_of(RemoteAddr address) const {
    constexpr unsigned kSetsOfPageBits = 6;
    const std::uint64_t number = address.value() / 64;
    const std::uint64_t page = number >> kSetsOfPageBits;
    const std::uint64_t in_page = hash_address(RemoteAddr(page)) & ((1U << kSetsOfPageBits) - 1);
    const std::uint64_t of_pages = hash_address(RemoteAddr(number >> set_bits_)) << kSetsOfPageBits;
    return sets_[(number ^ in_page ^ of_pages) & ((std::uint64_t{1} << set_bits_) - 1)];
}

std::size_t FreedBlocks::position(const Set& set, RemoteAddr address) {
    return static_cast<std::size_t>(
        std::find(set.addresses.begin(), set.addresses.end(), address.value()) -
        set.addresses.begin());
}

} // namespace memleax
