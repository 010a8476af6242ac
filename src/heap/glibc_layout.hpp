// SPDX-License-Identifier: GPL-3.0-or-later
/// glibc's malloc as it lies in memory, in 64-bit programs: malloc/malloc.c and malloc/arena.c of
/// 2.31 to 2.41; 2.36 checked against Debian's libc6-dbg with gdb's `ptype /o`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace memleax::glibc {

// ---- A chunk: prev_size (the block before may use it), size with three flags, the block. --------
inline constexpr std::uint64_t kHeader = 16;
inline constexpr std::uint64_t kSizeAt = 8;
inline constexpr std::uint64_t kForward = 16;  ///< fd, of a free chunk
inline constexpr std::uint64_t kBackward = 24; ///< bk
inline constexpr std::uint64_t kAlignment = 16;
inline constexpr std::uint64_t kSmallestChunk = 32; ///< MINSIZE
inline constexpr std::uint64_t kPrevInUse = 1;
inline constexpr std::uint64_t kIsMmapped = 2;
inline constexpr std::uint64_t kNonMainArena = 4;
inline constexpr std::uint64_t kFlags = 7;
/// Of a block that shares its last word with the chunk behind it.
constexpr std::uint64_t usable_bytes(std::uint64_t chunk) {
    return chunk - 8;
}

// ---- struct malloc_state: an arena --------------------------------------------------------------
namespace arena {
inline constexpr std::uint64_t kMutex = 0; ///< int; 0: nobody has it
inline constexpr std::uint64_t kFlagsAt = 4;
inline constexpr std::uint32_t kNonContiguous = 2;
inline constexpr std::uint64_t kFastbins = 16;
inline constexpr std::uint64_t kFastbinCount = 10;
inline constexpr std::uint64_t kTop = 96;
inline constexpr std::uint64_t kBins = 112; ///< fd and bk of bins 1 to 127
inline constexpr std::uint64_t kBinCount = 127;
inline constexpr std::uint64_t kNext = 2160; ///< all arenas, in a circle
inline constexpr std::uint64_t kAttachedThreads = 2176;
inline constexpr std::uint64_t kSystemMem = 2184;
inline constexpr std::uint64_t kMaxSystemMem = 2192;
inline constexpr std::uint64_t kBytes = 2200;
/// A bin as its chunks see it: one whose fd and bk are those in the arena.
constexpr std::uint64_t bin(std::uint64_t arena, std::uint64_t number) {
    return arena + kBins + (number - 1) * 16 - kForward;
}
} // namespace arena

// ---- struct malloc_par: mp_ ---------------------------------------------------------------------
namespace parameters {
inline constexpr std::uint64_t kMmapThreshold = 16;
inline constexpr std::uint64_t kArenaTest = 24;
} // namespace parameters
/// What comes behind that. 2.35 has put three members about huge pages before it.
struct ParameterPlaces {
    std::uint64_t mmaps = 0;      ///< n_mmaps: int, as the next two
    std::uint64_t most_mmaps = 0; ///< max_n_mmaps
    std::uint64_t no_dyn_threshold = 0;
    std::uint64_t mmapped_mem = 0;
    std::uint64_t max_mmapped_mem = 0;
    std::uint64_t sbrk_base = 0;
    std::uint64_t tcache_bins = 0;
    std::uint64_t tcache_max_bytes = 0;
    std::uint64_t tcache_count = 0;
    std::uint64_t bytes = 0; ///< of the whole
};

// ---- struct _heap_info: at the begin of each heap of an arena other than the main one -----------
namespace heap {
inline constexpr std::uint64_t kAlignment = 64ULL << 20; ///< HEAP_MAX_SIZE, without huge pages
inline constexpr std::uint64_t kArena = 0;
inline constexpr std::uint64_t kPrevious = 8;
inline constexpr std::uint64_t kSize = 16;
} // namespace heap

// ---- struct tcache_perthread_struct -------------------------------------------------------------
namespace tcache {
inline constexpr std::uint64_t kBins = 64;
inline constexpr std::uint64_t kEntries = 128; ///< behind a count of two bytes for each
inline constexpr std::uint64_t kBytes = 640;
/// Of its block; or kAlignment more, if what was left of a chunk was too small to be one.
inline constexpr std::uint64_t kUsable = 648;
constexpr std::uint64_t bin_usable(std::uint64_t bin) {
    return usable_bytes(kSmallestChunk + bin * kAlignment);
}
} // namespace tcache

// ---- What differs between versions --------------------------------------------------------------
struct Layout {
    bool hides_links = true;      ///< PROTECT_PTR: pointers in lists of fast bins and caches
    std::uint64_t heap_bytes = 0; ///< of struct _heap_info
    ParameterPlaces parameters;

    /// A pointer that is stored at this place in such a list.
    [[nodiscard]] constexpr std::uint64_t reveal(std::uint64_t place, std::uint64_t stored) const {
        return hides_links ? (place >> 12) ^ stored : stored;
    }
};

inline constexpr ParameterPlaces kOldParameters{.mmaps = 40,
                                                .most_mmaps = 48,
                                                .no_dyn_threshold = 52,
                                                .mmapped_mem = 56,
                                                .max_mmapped_mem = 64,
                                                .sbrk_base = 72,
                                                .tcache_bins = 80,
                                                .tcache_max_bytes = 88,
                                                .tcache_count = 96,
                                                .bytes = 112};
inline constexpr ParameterPlaces kNewParameters{.mmaps = 60,
                                                .most_mmaps = 68,
                                                .no_dyn_threshold = 72,
                                                .mmapped_mem = 80,
                                                .max_mmapped_mem = 88,
                                                .sbrk_base = 96,
                                                .tcache_bins = 104,
                                                .tcache_max_bytes = 112,
                                                .tcache_count = 120,
                                                .bytes = 136};

inline constexpr Layout kLayout31{
    .hides_links = false, .heap_bytes = 32, .parameters = kOldParameters};
inline constexpr Layout kLayout32{.heap_bytes = 32, .parameters = kOldParameters};
inline constexpr Layout kLayout35{.heap_bytes = 48, .parameters = kNewParameters};

struct Version {
    std::string_view number;
    const Layout* layout;
};
/// Those of which all of this is known to be true. 2.42 has other caches.
inline constexpr std::array<Version, 11> kVersions{{{"2.31", &kLayout31},
                                                    {"2.32", &kLayout32},
                                                    {"2.33", &kLayout32},
                                                    {"2.34", &kLayout32},
                                                    {"2.35", &kLayout35},
                                                    {"2.36", &kLayout35},
                                                    {"2.37", &kLayout35},
                                                    {"2.38", &kLayout35},
                                                    {"2.39", &kLayout35},
                                                    {"2.40", &kLayout35},
                                                    {"2.41", &kLayout35}}};

} // namespace memleax::glibc
