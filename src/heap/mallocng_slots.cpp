// SPDX-License-Identifier: GPL-3.0-or-later
// What is in the slots of a group: blocks, other groups, nothing.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "mallocng_walk.hpp"

namespace memleax {

namespace ng = mallocng;

std::optional<std::uint32_t> MallocngWalk::half(std::uint64_t at) {
    std::uint32_t value = 0;
    if (at < image_at_ || at + sizeof value > image_at_ + image_.size()) {
        return memory_.try_read_object<std::uint32_t>(RemoteAddr(at));
    }
    std::memcpy(&value, &image_[at - image_at_], sizeof value);
    return value;
}

bool MallocngWalk::read_slots(const Group& group) {
    constexpr std::uint64_t kSmall = 64 << 10;
    image_.resize(group.bytes() <= kSmall ? group.bytes() : 0);
    image_at_ = group.at;
    if (memory_.try_read(RemoteAddr(group.at), image_) != image_.size()) {
        return fail(fmt::format("the group at {:#x} cannot be read", group.at));
    }
    const std::uint32_t taken = group.is.all_slots() & ~(group.is.available | group.is.freed);
    for (unsigned number = 0; number <= group.is.last_slot(); ++number) {
        if ((taken >> number & 1) != 0 && !read_slot(group, number)) {
            return false;
        }
    }
    return true;
}

// The slot's number, and the distance from the first slot.
bool MallocngWalk::is_begin(const Group& group, unsigned number, std::uint64_t at) {
    constexpr std::uint64_t kFarthest = 0xffff; // that fits the word before the block
    const ng::InBand word = in_band(at);
    const std::uint64_t offset = (at - group.slot(0)) / ng::kUnit;
    if (word.slot() != number || word.reserved() > ng::InBand::kNested) {
        return false;
    }
    if (word.kind() == ng::InBand::kFar) {
        return offset > kFarthest && word.offset() == 0 && half(at - 2 * ng::kInBand) == offset;
    }
    return word.kind() == 0 && word.offset() == offset;
}

std::optional<std::uint64_t> MallocngWalk::begin_of_block(const Group& group, unsigned number) {
    constexpr std::uint64_t kRound =
        0x10000; // of an alignment of a MiB and more two bytes are kept
    const std::uint64_t slot = group.slot(number);
    const std::uint64_t end = slot + group.is.stride() - ng::kInBand;
    const ng::InBand first = in_band(slot);
    std::uint64_t offset = 0;
    if (first.slot() == 0 && first.reserved() == ng::InBand::kLater) {
        offset = first.offset();
    }
    do {
        const std::uint64_t begin = slot + offset * ng::kUnit;
        if (begin > end) {
            break;
        }
        if (is_begin(group, number, begin)) {
            return begin;
        }
        offset += kRound;
    } while (first.reserved() == ng::InBand::kLater);
    return std::nullopt;
}

bool MallocngWalk::read_slot(const Group& group, unsigned number) {
    const auto begin = begin_of_block(group, number);
    if (!begin) {
        return fail(fmt::format("slot {} of the group at {:#x} is taken, and has no block", number,
                                group.at));
    }
    const std::uint64_t end = group.slot(number) + group.is.stride() - ng::kInBand;
    std::uint64_t rest = in_band(*begin).reserved();
    if (rest == ng::InBand::kNested) {
        nests_.push_back({*begin, end + ng::kInBand - *begin});
        return true;
    }
    if (rest == ng::InBand::kSeveral) {
        rest = half(end - ng::kInBand).value_or(0);
        // It has been written over if the program has written behind the block.
        rest = rest >= ng::InBand::kSeveral && rest <= end - *begin ? rest : 0;
    }
    if (rest > end - *begin) {
        return fail(fmt::format("the block at {:#x} has no size that it can have", *begin));
    }
    blocks_.push_back({RemoteAddr(*begin), end - rest - *begin});
    return true;
}

// As many as there are groups in slots, and each in one.
bool MallocngWalk::check_nests() {
    std::sort(nests_.begin(), nests_.end(),
              [](const Nest& a, const Nest& b) { return a.at < b.at; });
    auto nest = nests_.begin();
    for (const Group& group : groups_) {
        if (!group.is_nested()) {
            continue;
        }
        if (nest == nests_.end() || nest->at != group.at || nest->bytes < group.bytes()) {
            return fail(fmt::format("the group at {:#x} lies in no slot of another", group.at));
        }
        ++nest;
    }
    if (nest != nests_.end()) {
        return fail(fmt::format("the slot at {:#x} has no group", nest->at));
    }
    return true;
}

} // namespace memleax
