// SPDX-License-Identifier: GPL-3.0-or-later
/// Words that jemalloc 5.3.0 keeps for itself: an extent's begin, which is that of a block, and
/// what a thread's cache has given out before. Neither is a pointer of the program's. Layouts are
/// those of its sources (include/jemalloc/internal/base.h, edata.h, cache_bin.h, tcache_structs.h),
/// in 64-bit programs:
///
///     base block, at a multiple of 2 MiB       thread cache, in thread-local storage
///      0  size, of the whole block             -8  its slow part
///      8  the next one, or 0                    0  bin 0, of 24 bytes: head of its stack,
///     16  bits: 0x?????0afff                       a count, low 16 bits of: low water, full
///     24  begin of what is not used yet            (lowest place), empty (behind the highest)
///     32  how much that is, to the end         24  bin 1, whose stack begins behind that of bin 0
///
///     extent, in a base block at 128 n         slow part
///      0  bits, 0x2000: committed              32  the cache's bin 0
///      8  its begin                            40  its arena; 0 when it is given back
///     16  size and a number
///                                              stacks of all bins, in one piece
///                                               0  0x7a7a7a7a7a7a7a7a
///                                               8  ...
///                                               -  0xa7a7a7a7a7a7a7a7
///
/// The only pointers of a program's that are in a base block are those to its extent_hooks_t,
/// behind the number of an arena, which is less than 0x1000.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/proc/present_pages.hpp"
#include "thread_view.hpp"

namespace memleax {

/// Is there one of this version, as its file says?
bool has_jemalloc(const ModuleMap& modules);

/// Ascending. Only what is told twice or more: of a base block its end, of a cache the bins'
/// stacks, each of which ends where the next one begins, the marks around all of them, and the way
/// back from its slow part.
std::vector<AddrRange> find_jemalloc_books(MemoryReader& memory, std::span<const Mapping> mappings,
                                           const PresentPages& pages,
                                           std::span<const ThreadView> threads);

} // namespace memleax
