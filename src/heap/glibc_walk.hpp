// SPDX-License-Identifier: GPL-3.0-or-later
/// All live blocks of a process that uses glibc's malloc, by what malloc has written down.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "glibc_places.hpp"
#include "heap_books.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "word_window.hpp"

namespace memleax {

/// The arenas in which a thread is at work. Nothing if their list cannot be followed, as one is
/// perhaps at work there.
std::optional<std::vector<std::uint64_t>> locked_arenas(MemoryReader& memory,
                                                        const GlibcPlaces& places);

/// One walk, of a process that stands still. Everything that the books say twice is compared.
class GlibcWalk {
  public:
    GlibcWalk(MemoryReader& memory, const GlibcPlaces& places, WalkInput input);

    /// False: why() says what does not agree.
    [[nodiscard]] bool run();
    [[nodiscard]] const std::string& why() const { return why_; }

    /// By address. Without the caches that malloc keeps for each thread in blocks of its own.
    [[nodiscard]] HeapBlocks take_blocks() { return std::move(blocks_); }
    /// Memory that is malloc's: its own books, and what blocks are made of.
    [[nodiscard]] const std::vector<AddrRange>& ranges() const { return ranges_; }

  private:
    struct FreeChunk {
        std::uint64_t at = 0;
        std::uint64_t forward = 0;
        std::uint64_t backward = 0;
    };
    /// A thread's cache, and the blocks in it.
    struct Cache {
        std::uint64_t at = 0;
        std::vector<std::size_t> entries; ///< indices in blocks_
    };

    bool fail(std::string why);
    bool walk_main_arena();
    bool walk_other_arena(std::uint64_t arena);
    bool check_top(std::uint64_t top, std::uint64_t end);
    /// Chunks from `begin` to `end`, exactly. Behind `end` is a chunk's header.
    bool walk_chunks(std::uint64_t begin, std::uint64_t end, std::uint64_t arena_flag);
    bool check_bins(std::span<const std::uint64_t> arenas);
    bool take_out_fastbins(std::uint64_t arena);
    bool walk_mmapped();
    /// The aligned chunk in a mapped one that once had `size` bytes, in a mapping that ends at
    /// `limit`.
    [[nodiscard]] std::optional<AddrRange> aligned_rest(std::uint64_t base, std::uint64_t size,
                                                        std::uint64_t limit,
                                                        std::span<const AddrRange> present);
    bool take_out_caches();
    [[nodiscard]] std::optional<Cache> cache_at(std::size_t block);
    [[nodiscard]] bool check_cache_of_threads(const std::vector<Cache>& caches);
    [[nodiscard]] std::optional<std::size_t> find_block(std::uint64_t address) const;
    void take_out(std::size_t block) { taken_out_[block] = true; }

    std::uint64_t word(std::uint64_t at) { return few_.word(at).value_or(0); }
    std::uint32_t half(std::uint64_t at) { return static_cast<std::uint32_t>(word(at)); }

    MemoryReader& memory_;
    const GlibcPlaces& places_;
    WalkInput input_;
    WordWindow few_;
    WordWindow many_;
    std::string why_;
    HeapBlocks blocks_;
    std::vector<bool> taken_out_; ///< free after all, or malloc's own
    std::vector<FreeChunk> free_; ///< by address
    std::vector<AddrRange> ranges_;
};

} // namespace memleax
