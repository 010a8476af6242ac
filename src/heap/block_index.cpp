// SPDX-License-Identifier: GPL-3.0-or-later
#include "block_index.hpp"

#include <algorithm>
#include <bit>

#include "memleax/base/error.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kGranule = 16; ///< MALLOC_ALIGNMENT of 64-bit programs
constexpr unsigned kMostShift = 4;     ///< 2^4 is that
constexpr unsigned kPlaces = 64;       ///< that one word of bits has
/// What is larger has a region of its own; so has what comes after such a gap.
constexpr std::uint64_t kLarge = 1ULL << 20;
constexpr std::uint64_t kHeaderWord = 8;

std::uint64_t end_of(const HeapBlock& block) {
    return block.address.value() + block.size;
}

} // namespace

BlockIndex::BlockIndex(std::span<const HeapBlock> blocks, Behind behind)
    : blocks_(blocks), behind_(behind) {
    MEMLEAX_ASSERT(blocks.size() <= kMostHeapBlocks);
    if (blocks.empty()) {
        return;
    }
    std::size_t first = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) {
        const HeapBlock& before = blocks[i - 1];
        if (before.size > kLarge || blocks[i].size > kLarge ||
            blocks[i].address.value() - end_of(before) > kLarge) {
            add_region(first, i - first);
            first = i;
        }
    }
    add_region(first, blocks.size() - first);
    lowest_ = regions_.front().begin;
    highest_ = regions_.back().end;
}

void BlockIndex::add_region(std::size_t first, std::size_t count) {
    const std::uint64_t begin = blocks_[first].address.value();
    const HeapBlock& last = blocks_[first + count - 1];
    const std::uint64_t end = end_of(last) + spare_of(last.size);
    std::uint64_t offsets = 1ULL << kMostShift;
    for (std::size_t i = first; i < first + count; ++i) {
        offsets |= blocks_[i].address.value() - begin;
    }
    const auto shift = static_cast<unsigned>(std::countr_zero(offsets));
    regions_.push_back({begin, end, static_cast<std::uint32_t>(first),
                        static_cast<std::uint32_t>(count), places_.size(), shift});
    if (count == 1) {
        return;
    }
    const std::size_t first_word = places_.size();
    // The last may have no bytes.
    places_.resize(first_word + ((end - begin) >> shift) / kPlaces + 1);
    for (std::size_t i = first; i < first + count; ++i) {
        const std::uint64_t place = (blocks_[i].address.value() - begin) >> shift;
        places_[first_word + place / kPlaces].begins |= 1ULL << (place % kPlaces);
    }
    std::uint32_t before = 0;
    for (std::size_t i = first_word; i < places_.size(); ++i) {
        places_[i].before = before;
        before += static_cast<std::uint32_t>(std::popcount(places_[i].begins));
    }
}

// jemalloc, tcmalloc and mimalloc have four classes or more from one power of two to the next.
std::uint64_t BlockIndex::spare_of(std::uint64_t size) const {
    constexpr std::uint64_t kSmallest = 8;
    if (behind_ != Behind::spare || size == 0) {
        return 0;
    }
    const std::uint64_t step =
        size <= kSmallest ? kSmallest : std::max(kGranule, std::bit_floor(size - 1) / 4);
    return (step - size % step) % step;
}

std::optional<BlockLink> BlockIndex::find_in_regions(std::uint64_t word, LastWord last) const {
    const auto behind =
        std::upper_bound(regions_.begin(), regions_.end(), word,
                         [](std::uint64_t w, const Region& region) { return w < region.begin; });
    const Region& region = *std::prev(behind); // word is not below the first
    if (word > region.end) {
        return std::nullopt;
    }
    std::uint32_t number = region.first_block;
    if (region.blocks > 1) {
        const std::uint64_t offset = word - region.begin;
        const std::uint64_t place = offset >> region.shift;
        const Places& places = places_[region.first_word + place / kPlaces];
        const std::uint64_t up_to = places.begins & (~0ULL >> (kPlaces - 1 - place % kPlaces));
        // The region begins with a block, so that there is one at or before each place.
        number += places.before + static_cast<std::uint32_t>(std::popcount(up_to)) - 1;
        // Most links lead to a first byte; the block itself, which is in no cache, need not be
        // read.
        const bool begins = (places.begins >> (place % kPlaces) & 1U) != 0;
        if (begins && offset == place << region.shift) {
            return BlockLink(number, false);
        }
    }
    const HeapBlock& block = blocks_[number];
    const std::uint64_t into = word - block.address.value();
    if (into == 0) {
        return BlockLink(number, false);
    }
    const bool has_follower = behind_ == Behind::header && block.size % kGranule != 0;
    const bool is_header =
        has_follower && last == LastWord::is_header && into == block.size - kHeaderWord;
    const bool is_behind = into >= block.size && into <= block.size + spare_of(block.size) &&
                           (has_follower || behind_ != Behind::header);
    const bool is_within = into < block.size || is_behind;
    return is_within && !is_header ? std::optional(BlockLink(number, true)) : std::nullopt;
}

} // namespace memleax
