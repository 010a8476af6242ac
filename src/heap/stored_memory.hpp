// SPDX-License-Identifier: GPL-3.0-or-later
/// What a process had in some parts of its memory at a moment, to be read while it runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/present_pages.hpp"

namespace memleax {

struct Unmapping {
    std::size_t size = 0;
    void operator()(std::byte* begin) const;
};

class StoredMemory final : public MemoryReader {
  public:
    /// Memory for as much as this process has, before it stands still: to get it from the kernel
    /// takes longer than to copy. Nothing if that is more than `room` bytes, or we get none.
    static std::optional<StoredMemory> reserve(Tid pid, std::uint64_t room);

    /// Copies what the process, which stands still, has in these mappings: all that is written of
    /// private ones, all that is there of shared ones. False if it has grown beyond the room, and
    /// nothing is copied then. `pages` has kept them (PresentPages::keep()). `memory` is read by
    /// several threads at once.
    /// Further mappings may follow, from another reader.
    [[nodiscard]] bool copy(MemoryReader& memory, std::span<const Mapping> mappings,
                            const PresentPages& pages);
    /// Parts of what was to be copied that could not be read whole: a device's memory, or what is
    /// behind the end of a file that has become shorter.
    [[nodiscard]] std::size_t short_reads() const { return short_reads_; }

    /// As the process would have told then. What it has not written to is zero in private anonymous
    /// memory; elsewhere it cannot be read.
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override;

  private:
    struct Piece {
        AddrRange range;
        const std::byte* bytes; ///< null: zeros
    };

    explicit StoredMemory(std::unique_ptr<std::byte, Unmapping> copy) : copy_(std::move(copy)) {}
    /// What is read in one go.
    struct Chunk {
        std::uint64_t from;
        std::span<std::byte> out;
        std::size_t piece;
        std::size_t got = 0;
    };
    void add(AddrRange part, std::vector<Chunk>* chunks);
    static void read(MemoryReader& memory, std::span<Chunk> chunks, std::uint64_t bytes);
    void add_zeros(std::uint64_t begin, std::uint64_t end);

    std::unique_ptr<std::byte, Unmapping> copy_;
    std::uint64_t used_ = 0;
    std::size_t short_reads_ = 0;
    std::vector<Piece> pieces_; ///< ascending
};

/// Does the search for blocks and pointers read this mapping?
bool is_searched(const Mapping& mapping);

} // namespace memleax
