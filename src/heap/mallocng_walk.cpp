// SPDX-License-Identifier: GPL-3.0-or-later
// The metas, the groups that they are of, and what malloc's lists and sums say of them.
// mallocng_slots.cpp has what is in the groups.
#include "mallocng_walk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace memleax {

namespace ng = mallocng;

bool MallocngWalk::fail(std::string why) {
    why_ = std::move(why);
    return false;
}

WalkedHeap MallocngWalk::run() {
    WalkedHeap heap;
    if (word(context_ + ng::context::kInitDone).value_or(0) == 0) {
        return heap; // malloc has not been called yet
    }
    if (!read_areas() || !check_free_metas() || !check_rings() || !check_usage() ||
        !check_places()) {
        heap.why = std::move(why_);
        return heap;
    }
    for (const Group& group : groups_) {
        if (!read_slots(group)) {
            heap.why = std::move(why_);
            return heap;
        }
    }
    if (!check_nests()) {
        heap.why = std::move(why_);
        return heap;
    }
    sort_by_address(&blocks_);
    if (blocks_.size() > kMostHeapBlocks) {
        heap.why = fmt::format("there are more than {} blocks", kMostHeapBlocks);
        return heap;
    }
    heap.blocks = std::move(blocks_);
    heap.ranges.push_back({context_, context_ + ng::context::kBytes});
    for (const std::uint64_t area : areas_) {
        heap.ranges.push_back({area, area + ng::kArea});
    }
    for (const Group& group : groups_) {
        if (!group.is_nested()) {
            heap.ranges.push_back({group.at, group.at + group.bytes()});
        }
    }
    return heap;
}

bool MallocngWalk::read_areas() {
    constexpr std::size_t kMostAreas = 1U << 26; // of 101 metas each: more than there are blocks
    secret_ = word(context_ + ng::context::kSecret).value_or(0);
    const std::uint64_t last = word(context_ + ng::context::kLastArea).value_or(0);
    const std::uint64_t left = word(context_ + ng::context::kMetasLeft).value_or(0);
    std::uint64_t area = word(context_ + ng::context::kFirstArea).value_or(0);
    if (left >= ng::kMetasOfArea) {
        return fail(fmt::format("malloc says that {} metas are left in a page", left));
    }
    while (area != 0 && areas_.size() < kMostAreas) {
        if (!read_area(area, ng::kMetasOfArea - (area == last ? left : 0))) {
            return false;
        }
        areas_.push_back(area);
        area = area == last ? 0 : word(area + ng::area::kNext).value_or(0);
    }
    if (areas_.empty() || areas_.back() != last || word(last + ng::area::kNext).value_or(1) != 0) {
        return fail("the list of malloc's pages of metas does not end where it should");
    }
    std::sort(unused_metas_.begin(), unused_metas_.end());
    std::sort(groups_.begin(), groups_.end(),
              [](const Group& a, const Group& b) { return a.meta < b.meta; });
    return true;
}

bool MallocngWalk::read_area(std::uint64_t at, std::uint64_t metas) {
    std::array<std::byte, ng::kArea> bytes{};
    std::uint64_t check = 0;
    std::uint32_t slots = 0;
    const bool is_read = memory_.try_read(RemoteAddr(at), bytes) == bytes.size();
    std::memcpy(&check, &bytes[ng::area::kCheck], sizeof check);
    std::memcpy(&slots, &bytes[ng::area::kSlots], sizeof slots);
    if (!is_read || at % ng::kArea != 0 || check != secret_ || slots != ng::kMetasOfArea) {
        return fail(fmt::format("at {:#x} there is no page of malloc's metas", at));
    }
    for (std::uint64_t i = 0; i < metas; ++i) {
        const std::uint64_t offset = ng::area::kMetas + i * ng::kMetaBytes;
        Group group;
        group.meta = at + offset;
        std::memcpy(&group.is, &bytes.at(offset), sizeof group.is);
        group.at = group.is.group;
        if (group.at == 0) {
            unused_metas_.push_back(group.meta);
        } else if (!check_group(group)) {
            return false;
        } else {
            groups_.push_back(group);
        }
    }
    return true;
}

bool MallocngWalk::check_group(const Group& group) {
    constexpr unsigned kActiveBits = 31;
    const ng::Meta& is = group.is;
    const std::uint32_t free = is.available | is.freed;
    const bool is_mapped = is.size_class() == ng::kMappedClass;
    const bool is_possible = group.at % ng::kUnit == 0 && (is.available & is.freed) == 0 &&
                             (free & ~is.all_slots()) == 0 &&
                             (is_mapped ? is.last_slot() == 0 && is.mapped_bytes() != 0 && free == 0
                                        : is.size_class() < ng::kClasses) &&
                             (is.is_freeable() || (is.mapped_bytes() == 0 && is.last_slot() == 0));
    if (!is_possible || ng::kUnit + is.stride() * (is.last_slot() + 1) > group.bytes()) {
        return fail(fmt::format("the meta at {:#x} is of no possible group", group.meta));
    }
    const auto active = word(group.at + ng::group::kActiveSlot);
    if (word(group.at + ng::group::kMeta) != group.meta || !active) {
        return fail(fmt::format("the group at {:#x} has not the meta that has it", group.at));
    }
    const std::uint64_t last_active = *active & kActiveBits;
    if (!is_mapped &&
        (last_active > is.last_slot() || (is.available & ~((2ULL << last_active) - 1)) != 0)) {
        return fail(fmt::format("the group at {:#x} gives out slots that it has not", group.at));
    }
    return true;
}

// All that are not in use are in a ring.
bool MallocngWalk::check_free_metas() {
    const std::uint64_t head = word(context_ + ng::context::kFreeMetas).value_or(0);
    std::size_t listed = 0;
    for (std::uint64_t at = head; at != 0 && listed <= unused_metas_.size();) {
        const auto meta = memory_.try_read_object<ng::Meta>(RemoteAddr(at));
        if (!meta || !std::binary_search(unused_metas_.begin(), unused_metas_.end(), at) ||
            word(meta->next + offsetof(ng::Meta, previous)) != at) {
            return fail(fmt::format("malloc's list of free metas has {:#x}, which is none", at));
        }
        ++listed;
        at = meta->next == head ? 0 : meta->next;
    }
    if (listed != unused_metas_.size()) {
        return fail(fmt::format("{} metas have no group, and {} are in malloc's list of such",
                                unused_metas_.size(), listed));
    }
    return true;
}

const MallocngWalk::Group* MallocngWalk::find_group(std::uint64_t meta) const {
    const auto found =
        std::lower_bound(groups_.begin(), groups_.end(), meta,
                         [](const Group& group, std::uint64_t at) { return group.meta < at; });
    return found != groups_.end() && found->meta == meta ? &*found : nullptr;
}

// Groups with free slots are in a ring, by their class.
bool MallocngWalk::check_rings() {
    std::size_t listed = 0;
    for (std::uint64_t number = 0; number < ng::kClasses; ++number) {
        const std::uint64_t head =
            word(context_ + ng::context::kActive + number * sizeof number).value_or(1);
        for (std::uint64_t at = head; at != 0;) {
            const Group* group = find_group(at);
            const Group* next = group != nullptr ? find_group(group->is.next) : nullptr;
            if (next == nullptr || next->is.previous != at || group->is.size_class() != number ||
                ++listed > groups_.size()) {
                return fail(fmt::format("malloc's ring of groups of class {} is inconsistent at "
                                        "{:#x}",
                                        number, at));
            }
            at = group->is.next == head ? 0 : group->is.next;
        }
    }
    const auto in_ring = static_cast<std::size_t>(std::count_if(
        groups_.begin(), groups_.end(), [](const Group& group) { return group.is.next != 0; }));
    if (in_ring != listed) {
        return fail(fmt::format("{} groups are in malloc's rings, and {} say so", listed, in_ring));
    }
    return true;
}

bool MallocngWalk::check_usage() {
    std::array<std::uint64_t, ng::kClasses> slots{};
    for (const Group& group : groups_) {
        // What was donated is not counted.
        if (group.is.size_class() < ng::kClasses && group.is.is_freeable()) {
            slots.at(group.is.size_class()) += group.is.last_slot() + 1;
        }
    }
    for (std::uint64_t number = 0; number < ng::kClasses; ++number) {
        const auto says = word(context_ + ng::context::kUsage + number * sizeof number);
        if (says != slots.at(number)) {
            return fail(fmt::format("malloc has {} slots of class {}, and says {}",
                                    slots.at(number), number, says.value_or(0)));
        }
    }
    return true;
}

// From here on by address. No two groups overlap, unless one is in a slot of the other.
bool MallocngWalk::check_places() {
    std::sort(groups_.begin(), groups_.end(),
              [](const Group& a, const Group& b) { return a.at < b.at; });
    std::uint64_t end = 0;
    for (const Group& group : groups_) {
        const bool is_inside = group.at < end;
        if (group.is_nested() ? !is_inside || group.at + group.bytes() > end : is_inside) {
            return fail(fmt::format("the group at {:#x} lies where none can", group.at));
        }
        if (!group.is_nested()) {
            end = group.at + group.bytes();
        }
    }
    return true;
}

} // namespace memleax
