// SPDX-License-Identifier: GPL-3.0-or-later
/// The addresses that were freed lately: what tells a double free from the free of a block that was
/// there before the attach.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "memleax/base/types.hpp"
#include "memleax/track/address_hash.hpp"

namespace memleax {

/// Bounded, and forgets the oldest first, but not in one queue: an address belongs to one of many
/// sets, each a cache line with room for the five that were freed last in it. Every event touches
/// this table, and this way it costs one cache line and never an allocation; and neighbours have
/// sets in one page, as else each would be a miss of the TLB. With the default of 2^18 sets it has
/// room for 1.3 million addresses and grows to 16 MiB, as sets come into use; of the last half a
/// million frees of different addresses it still knows 98 of 100, and all of small blocks. What it
/// has forgotten counts as unknown, so that forgetting never makes a false double free.
class FreedBlocks {
  public:
    static constexpr std::size_t kSlots = 5;
    static constexpr std::size_t kDefaultCapacity = std::size_t{1} << 20U;

    /// Room for at least `capacity` addresses.
    explicit FreedBlocks(std::size_t capacity = kDefaultCapacity);

    /// The block here, allocated at `stack`, was freed.
    void remember(RemoteAddr address, StackId stack);
    /// Likewise, but nothing changes if that is known of one here already; false then.
    bool remember_new(RemoteAddr address, StackId stack);
    /// The address was allocated anew.
    void forget(RemoteAddr address);
    /// Where the block that was freed here had been allocated.
    [[nodiscard]] std::optional<StackId> find(RemoteAddr address) const;
    /// This address will be asked for soon.
    void prefetch(RemoteAddr address) const { __builtin_prefetch(&set_of(address), 1); }

  private:
    struct alignas(64) Set { ///< latest first; the address 0 is an empty slot
        std::array<std::uint64_t, kSlots> addresses;
        std::array<std::uint32_t, kSlots> stacks;
    };
    static_assert(sizeof(Set) == 64);
    struct Unmap {
        // Constructors, as a default member initializer counts only when the outer class is
        // complete.
        Unmap() : bytes(0) {}
        explicit Unmap(std::size_t size) : bytes(size) {}
        std::size_t bytes;
        void operator()(Set* sets) const;
    };

    /// A set for each 64 bytes, and pages in their order as far as the table goes. The next ones
    /// that take the same sets do so in another order; and each page has its own, as blocks of
    /// whole pages would else all begin in the same few.
    [[nodiscard]] Set& set_of(RemoteAddr address) const {
        constexpr unsigned kSetsOfPageBits = 6;
        const std::uint64_t number = address.value() / 64;
        const std::uint64_t page = number >> kSetsOfPageBits;
        const std::uint64_t in_page =
            hash_address(RemoteAddr(page)) & ((1U << kSetsOfPageBits) - 1);
        const std::uint64_t of_pages = hash_address(RemoteAddr(number >> set_bits_))
                                       << kSetsOfPageBits;
        return sets_[(number ^ in_page ^ of_pages) & ((std::uint64_t{1} << set_bits_) - 1)];
    }
    static std::size_t position(const Set& set, RemoteAddr address);
    /// What is before this place makes room at the front.
    static void put_in_front(Set* set, std::size_t place, RemoteAddr address, StackId stack);

    unsigned set_bits_;
    std::unique_ptr<Set[], Unmap> sets_;
};

} // namespace memleax
