// SPDX-License-Identifier: GPL-3.0-or-later
/// What the agent notes: entries in its thread's ring, young blocks, and with --check the blocks
/// that are live. Included by agent.cpp only, with whose options it is compiled.
#pragma once

#include "agent.hpp"
#include "agent_cpu.hpp"
#include "agent_walk.hpp"

// NOLINTBEGIN(performance-no-int-to-ptr): addresses are what it is about.
namespace memleax::agent {

AGENT_PART Progress& progress_of(Data& data, const Thread& thread) {
    static_assert(sizeof(Progress) == sizeof(Thread));
    const uint64_t place =
        reinterpret_cast<uint64_t>(&thread) - reinterpret_cast<uint64_t>(data.threads);
    return *reinterpret_cast<Progress*>(reinterpret_cast<uint64_t>(data.progress) + place);
}
AGENT_PART const Thread& thread_of(const Data& data, const Progress& progress) {
    const uint64_t place =
        reinterpret_cast<uint64_t>(&progress) - reinterpret_cast<uint64_t>(data.progress);
    return *reinterpret_cast<const Thread*>(reinterpret_cast<uint64_t>(data.threads) + place);
}

/// The reader's progress is looked at when what was seen of it is used up.
AGENT_PART bool has_room(const Thread& thread, Progress& progress) {
    if (progress.head < progress.room_end) [[likely]] {
        return true;
    }
    const uint64_t part = progress.head / kRingPart;
    // Of 256 parts, no more than the ring has are in use.
    const auto used_parts = static_cast<uint8_t>(part - load(thread.freed_parts));
    const uint64_t free_parts = uint64_t{thread.ring_parts} - used_parts;
    progress.room_end = (part + free_parts) * kRingPart - kLeastRoom;
    return progress.head < progress.room_end;
}

/// A thread's entries. The least significant bits of a place say where its entry is.
struct Ring {
    Entry* entries;
    uint64_t last; ///< a power of two, less one
    AGENT_PART Ring of(const Thread& thread) {
        return {reinterpret_cast<Entry*>(thread.ring), uint64_t{thread.ring_parts} * kRingPart - 1};
    }
    [[nodiscard]] __attribute__((always_inline)) Entry& at(uint64_t place) const {
        return entries[place & last];
    }
};

/// When so many more have been written, an entry's cache line has come from the reader's CPU.
constexpr uint64_t kSoon = 32;

AGENT_PART void record(Data& data, const Thread& thread, Progress& progress, Entry::Kind kind,
                       uint8_t function, uint64_t address, uint64_t size_or_caller,
                       uint32_t stack) {
    const Ring ring = Ring::of(thread);
    const uint64_t place = progress.head;
    Entry& entry = ring.at(place);
    entry.address = address;
    entry.size_or_caller = size_or_caller;
    entry.stack = stack;
    entry.function = function;
    entry.kind = kind;
    entry.tick = load(data.tick);
    // Acquires and releases: what the allocator did before an allocation's entry, it did before its
    // number; what it does after a free's, it does after that one's.
    entry.ticket = __atomic_fetch_add(&data.next_ticket, 1, __ATOMIC_SEQ_CST);
    store(progress.head, place + 1);
    arch::agent_will_write(&ring.at(place + 1 + kSoon));
}

AGENT_PART uint32_t index_of(const Data& data, const Progress& progress) {
    return static_cast<uint32_t>(&progress - data.progress);
}

/// The entry that was recorded last is the allocation of this block.
AGENT_PART void remember_young(Data& data, const Progress& progress, uint64_t address) {
    const uint64_t place = (progress.head - 1) & Young::kPlaceBits;
    store(data.young[Young::slot(address)], Young::key(address, index_of(data, progress)) | place);
}

/// The block ends, and that is told by an entry of its own.
AGENT_PART void forget_young(Data& data, uint64_t address) {
    uint64_t& slot = data.young[Young::slot(address)];
    if (((load(slot) ^ Young::key(address, 0)) & Young::kAddressBits) == 0) {
        store(slot, uint64_t{0});
    }
}

AGENT_PART bool is_claimed(const Thread& thread, uint32_t place) {
    const uint8_t claimed = __atomic_load_n(&thread.claimed_parts, __ATOMIC_SEQ_CST);
    const auto parts = static_cast<uint8_t>(place / kRingPart - claimed);
    return parts >= 128;
}

enum class Freed : uint8_t {
    not_here, ///< to be recorded
    here,
    unclear ///< here, or nowhere
};

/// The block is freed. If it is this thread's, and nobody has read of it, that is noted where it
/// was allocated.
AGENT_PART Freed free_young(Data& data, const Thread& thread, const Progress& progress,
                            uint64_t address) {
    uint64_t& slot = data.young[Young::slot(address)];
    const uint64_t young = load(slot);
    const uint32_t index = index_of(data, progress);
    const uint64_t key = Young::key(address, index);
    if (((young ^ key) & Young::kAddressBits) != 0) {
        return Freed::not_here;
    }
    store(slot, uint64_t{0});
    const auto place = static_cast<uint32_t>(young);
    const uint32_t age = static_cast<uint32_t>(progress.head) - place;
    const Ring ring = Ring::of(thread);
    Entry& entry = ring.at(place);
    if ((young & ~Young::kPlaceBits) != key || age == 0 || age > ring.last + 1 ||
        is_claimed(thread, place) || entry.address != address ||
        entry.kind != Entry::Kind::allocated) {
        return Freed::not_here;
    }
    entry.end_tick = load(data.tick);
    // The reader claims, and then reads; here it is changed, and then looked whether it is claimed.
    // One of the two sees what the other one did.
    Entry::Kind brief = Entry::Kind::brief;
    Entry::Kind before{};
    __atomic_exchange(&entry.kind, &brief, &before, __ATOMIC_SEQ_CST);
    return is_claimed(thread, place) ? Freed::unclear : Freed::here;
}

AGENT_PART uint64_t* live_bucket(const Data& data, uint64_t address) {
    return reinterpret_cast<LiveTable*>(data.live)->slots[LiveTable::bucket(address)];
}

AGENT_PART bool is_block(uint64_t key, uint64_t address) {
    return ((key ^ address) & LiveTable::kAddressBits) == 0 && key >> LiveTable::kKindShift != 0;
}

/// The block begins. It may take the place of another one, or find none.
AGENT_PART void add_live(const Data& data, uint64_t address, uint8_t allocated_by) {
    uint64_t* const bucket = live_bucket(data, address);
    uint64_t place = (address >> 4) % LiveTable::kWays;
    for (uint64_t i = 0; i < LiveTable::kWays; ++i) {
        const uint64_t key = load(bucket[i]);
        if (is_block(key, address)) { // its end was not seen
            place = i;
            break;
        }
        if (key >> LiveTable::kKindShift == 0) {
            place = i;
        }
    }
    store(bucket[place], LiveTable::key(address, allocated_by));
}

/// A block ends by this kind of function; false if it is not known that it may.
AGENT_PART bool take_live(const Data& data, uint64_t address, uint8_t ended_by) {
    uint64_t* const bucket = live_bucket(data, address);
    for (uint64_t i = 0; i < LiveTable::kWays; ++i) {
        uint64_t key = load(bucket[i]);
        const uint64_t by = (key >> LiveTable::kKindShift) - 1;
        if (is_block(key, address)) {
            const bool may_end =
                by == ended_by || by == LiveTable::kAnyKind || ended_by == LiveTable::kAnyKind;
            return may_end && __atomic_compare_exchange_n(&bucket[i], &key, uint64_t{0}, false,
                                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        }
    }
    return false;
}

} // namespace memleax::agent
// NOLINTEND(performance-no-int-to-ptr)
