// SPDX-License-Identifier: GPL-3.0-or-later
/// glibc's malloc as it lies in memory, in 64-bit programs: malloc/malloc.c and malloc/arena.c of
/// 2.36, checked against Debian's libc6-dbg with gdb's `ptype /o`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace memleax::glibc {

/// Versions of which all that follows is known to be true.
inline constexpr std::array<std::string_view, 1> kVersions{"2.36"};

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
inline constexpr std::uint64_t kMmapCounts = 56;    ///< hp_flags, n_mmaps: int each
inline constexpr std::uint64_t kMaxMmapCounts = 64; ///< n_mmaps_max, max_n_mmaps
inline constexpr std::uint64_t kNoDynThreshold = 72;
inline constexpr std::uint64_t kMmappedMem = 80;
inline constexpr std::uint64_t kMaxMmappedMem = 88;
inline constexpr std::uint64_t kSbrkBase = 96;
inline constexpr std::uint64_t kTcacheBins = 104;
inline constexpr std::uint64_t kTcacheMaxBytes = 112;
inline constexpr std::uint64_t kTcacheCount = 120;
inline constexpr std::uint64_t kBytes = 136;
} // namespace parameters

// ---- struct _heap_info: at the begin of each heap of an arena other than the main one -----------
namespace heap {
inline constexpr std::uint64_t kAlignment = 64ULL << 20; ///< HEAP_MAX_SIZE, without huge pages
inline constexpr std::uint64_t kArena = 0;
inline constexpr std::uint64_t kPrevious = 8;
inline constexpr std::uint64_t kSize = 16;
inline constexpr std::uint64_t kBytes = 48;
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

/// PROTECT_PTR: how a pointer at this place in a list of free chunks is stored (since 2.32).
constexpr std::uint64_t reveal(std::uint64_t place, std::uint64_t stored) {
    return (place >> 12) ^ stored;
}

} // namespace memleax::glibc
