// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/stack_table.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include <absl/hash/hash.h>

#include "memleax/base/error.hpp"

namespace memleax {

namespace {

/// Each chunk of the arena is twice the one before, up to the last of these: most of many short
/// processes (--follow-forks) have few stacks.
constexpr std::size_t kFirstChunkFrames = 256;
constexpr std::size_t kChunkFrames = 4096;

std::uint64_t hash_frames(std::span<const FrameAddress> frames, StackEnd end) {
    // As bytes: absl hashes a string several words at a time, but a range of objects one by one.
    static_assert(sizeof(FrameAddress) == 8);
    const std::string_view bytes(reinterpret_cast<const char*>(frames.data()), frames.size_bytes());
    return absl::HashOf(bytes, static_cast<std::uint8_t>(end));
}

} // namespace

StackTable::StackTable() : index_(0, Hash{this}, Equal{this}) {}

bool StackTable::Equal::operator()(std::uint32_t index, const Key& key) const {
    const Entry& entry = table->entries_[index];
    return entry.hash == key.hash && entry.end == key.end && entry.count == key.frames.size() &&
           std::equal(key.frames.begin(), key.frames.end(), entry.frames);
}

StackId StackTable::intern(std::span<const FrameAddress> frames, StackEnd end) {
    MEMLEAX_ASSERT(frames.size() <= std::numeric_limits<std::uint16_t>::max());
    const Key key{frames, end, hash_frames(frames, end)};
    if (const auto found = index_.find(key); found != index_.end()) {
        return StackId(*found);
    }
    const auto index = static_cast<std::uint32_t>(entries_.size());
    MEMLEAX_ASSERT(StackId(index) != kNoStack);
    entries_.push_back(
        {store(frames), key.hash, generation_, static_cast<std::uint16_t>(frames.size()), end});
    index_.insert(index);
    return StackId(index);
}

void StackTable::on_code_gone(AddrRange range) {
    for (auto it = index_.begin(); it != index_.end();) {
        const auto stack = frames(StackId(*it));
        // By lookup_pc: a call at the very end of a module returns to an address behind it.
        if (std::any_of(stack.begin(), stack.end(),
                        [&](FrameAddress frame) { return range.contains(frame.lookup_pc()); })) {
            index_.erase(it++);
        } else {
            ++it;
        }
    }
}

std::span<const FrameAddress> StackTable::frames(StackId id) const {
    const Entry& stack = entry(id);
    return {stack.frames, stack.count};
}

const StackTable::Entry& StackTable::entry(StackId id) const {
    MEMLEAX_ASSERT(id.value() < entries_.size());
    return entries_[id.value()];
}

const FrameAddress* StackTable::store(std::span<const FrameAddress> frames) {
    if (frames.size() > room_.size()) {
        const std::size_t twice = chunks_.empty() ? kFirstChunkFrames : 2 * chunk_frames_;
        chunk_frames_ = std::min(twice, kChunkFrames);
        const std::size_t size = std::max(chunk_frames_, frames.size());
        chunks_.push_back(std::make_unique<FrameAddress[]>(size));
        room_ = {chunks_.back().get(), size};
    }
    FrameAddress* place = room_.data();
    std::copy(frames.begin(), frames.end(), place);
    room_ = room_.subspan(frames.size());
    return place;
}

} // namespace memleax
