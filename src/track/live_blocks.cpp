// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/live_blocks.hpp"

#include <algorithm>
#include <utility>

#include "memleax/base/error.hpp"

namespace memleax {

LiveBlocks::LiveBlocks() {
    make_shards(kShardBits);
}

void LiveBlocks::make_shards(unsigned bits) {
    std::vector<Index> shards;
    shards.reserve(std::size_t{1} << bits);
    for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
        shards.emplace_back(0, Hash{this}, Equal{this});
    }
    shards_ = std::move(shards);
    shard_shift_ = 64 - bits;
}

BlockId LiveBlocks::insert(const Block& block, bool* inserted) {
    const std::uint32_t index =
        *shard(block.address).lazy_emplace(block.address, [&](const Index::constructor& construct) {
            const std::uint32_t fresh = new_record();
            Record& r = record(fresh);
            r.address = block.address.value();
            r.size_and_flags = std::min(block.size, kMostBytes) | alive;
            r.time = block.time.value();
            r.stack = block.stack.value();
            r.tid = block.tid.value();
            construct(fresh);
            *inserted = true;
        });
    if (*inserted) {
        enqueue_from_youngest(index);
        ++size_;
        bytes_ += record(index).size();
    }
    return BlockId(index);
}

std::uint32_t LiveBlocks::number_of(RemoteAddr address) const {
    const Index& index = shards_[hash_address(address) >> shard_shift_];
    const auto found = index.find(address);
    return found == index.end() ? kNone : *found;
}

std::uint32_t LiveBlocks::take_number(RemoteAddr address) {
    Index& index = shard(address);
    const auto found = index.find(address);
    if (found == index.end()) {
        return kNone;
    }
    const std::uint32_t number = *found;
    index.erase(found);
    record(number).set(taken);
    return number;
}

void LiveBlocks::release(BlockId id) {
    Record& r = checked(id);
    MEMLEAX_ASSERT(r.is(taken));
    if (r.is(queued)) {
        unlink(id.value());
    }
    --size_;
    expired_ -= r.is(is_expired) ? 1 : 0;
    bytes_ -= r.size();
    r.clear(alive);
    r.next = free_record_;
    free_record_ = id.value();
}

bool LiveBlocks::put_back(BlockId id) {
    Record& r = checked(id);
    MEMLEAX_ASSERT(r.is(taken));
    // By address: insert() would compare record numbers, and let a second one in.
    bool inserted = false;
    shard(RemoteAddr(r.address))
        .lazy_emplace(RemoteAddr(r.address), [&](const Index::constructor& construct) {
            construct(id.value());
            inserted = true;
        });
    if (!inserted) {
        return false;
    }
    r.clear(taken);
    if (!r.is(queued) && !r.is(is_expired)) { // its time came while it was out
        enqueue_from_oldest(id.value());
    }
    return true;
}

Block LiveBlocks::operator[](BlockId id) const {
    const Record& r = checked(id);
    return {RemoteAddr(r.address), r.size(),   MonotonicNs(r.time),
            StackId(r.stack),      Tid(r.tid), r.is(is_expired)};
}

std::optional<BlockId> LiveBlocks::next_to_expire(MonotonicNs latest) {
    while (oldest_ != kNone && record(oldest_).time <= latest.value()) {
        if (!record(oldest_).is(taken)) {
            return BlockId(oldest_);
        }
        unlink(oldest_);
    }
    return std::nullopt;
}

std::optional<MonotonicNs> LiveBlocks::oldest_young() const {
    return oldest_ == kNone ? std::nullopt : std::optional(MonotonicNs(record(oldest_).time));
}

void LiveBlocks::mark_expired(BlockId id) {
    Record& r = checked(id);
    if (r.is(queued)) {
        unlink(id.value());
    }
    expired_ += r.is(is_expired) ? 0 : 1;
    r.set(is_expired);
}

void LiveBlocks::clear() {
    for (Index& index : shards_) {
        index.clear();
    }
    chunks_.clear();
    used_ = room_ = 0;
    free_record_ = oldest_ = youngest_ = kNone;
    size_ = 0;
    expired_ = 0;
    bytes_ = 0;
}

LiveBlocks::Record& LiveBlocks::checked(BlockId id) const {
    MEMLEAX_ASSERT(id.value() < used_);
    Record& r = record(id.value());
    MEMLEAX_ASSERT(r.is(alive));
    return r;
}

std::uint32_t LiveBlocks::new_record() {
    if (free_record_ != kNone) { // the last one that became free: it is still in the cache
        const std::uint32_t index = free_record_;
        free_record_ = record(index).next;
        return index;
    }
    MEMLEAX_ASSERT(used_ != kNone);
    if (used_ == room_) {
        grow();
    }
    return used_++;
}

void LiveBlocks::grow() {
    constexpr std::uint32_t kChunk = 1U << kChunkBits;
    // Not make_unique, which would touch every page of the chunk.
    std::unique_ptr<Record[]> chunk(new Record[kChunk]);
    const std::uint32_t in_last = room_ % kChunk;
    if (in_last != 0) { // of compact()
        std::copy_n(chunks_.back().get(), in_last, chunk.get());
        chunks_.back() = std::move(chunk);
    } else {
        chunks_.push_back(std::move(chunk));
    }
    room_ += kChunk - in_last;
}

void LiveBlocks::compact() {
    constexpr std::size_t kMost = std::size_t{1} << 16U;
    constexpr unsigned kFewShardBits = 1; // no shift by 64, which is not defined
    if (size_ > kMost || (room_ == size_ && shards_.size() == 1U << kFewShardBits)) {
        return;
    }
    for (std::uint32_t index = 0; index < used_; ++index) {
        if (record(index).is(alive) && record(index).is(taken)) {
            return; // somebody has its number
        }
    }
    std::vector<Block> blocks; // the expired ones first: each that comes is the youngest then
    blocks.reserve(size_);
    for_each([&blocks](const Block& block) {
        if (block.expired) {
            blocks.push_back(block);
        }
    });
    for (std::uint32_t index = oldest_; index != kNone; index = record(index).next) {
        blocks.push_back((*this)[BlockId(index)]);
    }
    clear();
    chunks_.shrink_to_fit();
    make_shards(kFewShardBits);
    constexpr std::uint32_t kChunk = 1U << kChunkBits;
    for (std::size_t left = blocks.size(); left > 0;) {
        const auto part = static_cast<std::uint32_t>(std::min<std::size_t>(left, kChunk));
        chunks_.emplace_back(new Record[part]);
        room_ += part;
        left -= part;
    }
    for (const Block& block : blocks) {
        const BlockId id = insert(block).first;
        if (block.expired) {
            mark_expired(id);
        }
    }
}

void LiveBlocks::enqueue_from_youngest(std::uint32_t index) {
    const std::int64_t time = record(index).time;
    std::uint32_t next = kNone;
    std::uint32_t before = youngest_;
    while (before != kNone && record(before).time > time) {
        next = before;
        before = record(before).prev;
    }
    link_before(index, next);
}

void LiveBlocks::enqueue_from_oldest(std::uint32_t index) {
    const std::int64_t time = record(index).time;
    std::uint32_t next = oldest_;
    while (next != kNone && record(next).time < time) {
        next = record(next).next;
    }
    link_before(index, next);
}

void LiveBlocks::link_before(std::uint32_t index, std::uint32_t next) {
    Record& r = record(index);
    r.set(queued);
    r.next = next;
    r.prev = next == kNone ? youngest_ : record(next).prev;
    (r.prev == kNone ? oldest_ : record(r.prev).next) = index;
    (next == kNone ? youngest_ : record(next).prev) = index;
}

void LiveBlocks::unlink(std::uint32_t index) {
    Record& r = record(index);
    (r.prev == kNone ? oldest_ : record(r.prev).next) = r.next;
    (r.next == kNone ? youngest_ : record(r.next).prev) = r.prev;
    r.clear(queued);
}

} // namespace memleax
