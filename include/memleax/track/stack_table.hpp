// SPDX-License-Identifier: GPL-3.0-or-later
/// Interned call stacks: each different one is kept once, and has a small number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"

namespace memleax {

/// Grows only: the number of different call stacks of a program is small beside that of its blocks.
/// Looking a known stack up allocates nothing. Not thread-safe.
class StackTable {
  public:
    StackTable();
    StackTable(const StackTable&) = delete;
    StackTable& operator=(const StackTable&) = delete;

    /// The id of this stack: equal frames (innermost first) with an equal end get an equal id, as
    /// long as none of their code is gone. At most 65535 frames.
    StackId intern(std::span<const FrameAddress> frames, StackEnd end);

    /// The module list's generation; recorded with each stack that is new from now on.
    void set_generation(std::uint32_t generation) { generation_ = generation; }

    /// The code in this range was unloaded. The stacks through it stay readable, but equal
    /// addresses mean other code from now on, and get a new id. One pass over all stacks.
    void on_code_gone(AddrRange range);

    /// Valid, and at the same place, as long as the table lives.
    [[nodiscard]] std::span<const FrameAddress> frames(StackId id) const;
    [[nodiscard]] StackEnd end(StackId id) const { return entry(id).end; }
    /// The generation when this stack was first seen: what its addresses have to be looked up with.
    [[nodiscard]] std::uint32_t generation(StackId id) const { return entry(id).generation; }
    /// How many ids were given; they are 0 to size() - 1.
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

  private:
    struct Entry {
        const FrameAddress* frames; ///< in an arena chunk, so they never move
        std::uint64_t hash;         ///< kept: growing the index must not read all frames again
        std::uint32_t generation;
        std::uint16_t count;
        StackEnd end;
    };
    struct Key {
        std::span<const FrameAddress> frames;
        StackEnd end;
        std::uint64_t hash;
    };
    struct Hash {
        using is_transparent = void;
        const StackTable* table;
        std::size_t operator()(std::uint32_t index) const { return table->entries_[index].hash; }
        std::size_t operator()(const Key& key) const { return key.hash; }
    };
    struct Equal {
        using is_transparent = void;
        const StackTable* table;
        bool operator()(std::uint32_t a, std::uint32_t b) const { return a == b; }
        bool operator()(std::uint32_t index, const Key& key) const;
        bool operator()(const Key& key, std::uint32_t index) const { return (*this)(index, key); }
    };

    [[nodiscard]] const Entry& entry(StackId id) const;
    const FrameAddress* store(std::span<const FrameAddress> frames);

    std::vector<Entry> entries_;
    std::vector<std::unique_ptr<FrameAddress[]>> chunks_; ///< the arena
    std::size_t chunk_frames_ = 0; ///< the last one's, unless it has to be larger
    std::span<FrameAddress> room_; ///< the unused end of the last chunk
    absl::flat_hash_set<std::uint32_t, Hash, Equal> index_;
    std::uint32_t generation_ = 0;
};

} // namespace memleax
