// SPDX-License-Identifier: GPL-3.0-or-later
// Arenas, their heaps, chunks, bins. glibc_caches.cpp has what malloc keeps for threads,
// glibc_mmapped.cpp the chunks that are mappings.
#include "glibc_walk.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "glibc_layout.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t size_of(std::uint64_t header) {
    return header & ~glibc::kFlags;
}

/// The main one first; nothing if the list cannot be followed.
std::optional<std::vector<std::uint64_t>> list_arenas(WordWindow& words,
                                                      const GlibcPlaces& places) {
    constexpr std::size_t kMost = 1U << 16;
    std::vector<std::uint64_t> result;
    for (std::uint64_t arena = places.main_arena; result.size() < kMost;) {
        result.push_back(arena);
        arena = words.word(arena + glibc::arena::kNext).value_or(0);
        if (arena == places.main_arena) {
            return result;
        }
        if (arena % glibc::heap::kAlignment != places.layout->heap_bytes) {
            break;
        }
    }
    return std::nullopt;
}

} // namespace

GlibcWalk::GlibcWalk(MemoryReader& memory, const GlibcPlaces& places, WalkInput input)
    : memory_(memory), places_(places), input_(std::move(input)), few_(memory, WordWindow::kSmall),
      many_(memory, WordWindow::kLarge) {}

bool GlibcWalk::fail(std::string why) {
    why_ = std::move(why);
    return false;
}

std::optional<std::vector<std::uint64_t>> locked_arenas(MemoryReader& memory,
                                                        const GlibcPlaces& places) {
    WordWindow words(memory, WordWindow::kSmall);
    auto arenas = list_arenas(words, places);
    if (arenas) {
        std::erase_if(*arenas, [&words](std::uint64_t arena) {
            const std::uint64_t mutex = words.word(arena + glibc::arena::kMutex).value_or(1);
            return static_cast<std::uint32_t>(mutex) == 0;
        });
    }
    return arenas;
}

bool GlibcWalk::run() {
    const auto all = list_arenas(few_, places_);
    if (!all) {
        return fail("the list of malloc's arenas cannot be followed");
    }
    if (all->size() == 1 && word(places_.main_arena + glibc::arena::kTop) == 0) {
        return true; // malloc has not been called yet
    }
    if (!walk_main_arena()) {
        return false;
    }
    for (auto arena = std::next(all->begin()); arena != all->end(); ++arena) {
        if (!walk_other_arena(*arena)) {
            return false;
        }
    }
    if (!walk_mmapped()) {
        return false;
    }
    sort_by_address(&blocks_);
    std::sort(free_.begin(), free_.end(),
              [](const FreeChunk& a, const FreeChunk& b) { return a.at < b.at; });
    if (blocks_.size() > kMostHeapBlocks) {
        return fail(fmt::format("there are more than {} blocks", kMostHeapBlocks));
    }
    taken_out_.assign(blocks_.size(), false);
    if (!check_bins(*all)) {
        return false;
    }
    for (const std::uint64_t arena : *all) {
        if (!take_out_fastbins(arena)) {
            return false;
        }
    }
    if (!take_out_caches()) {
        return false;
    }
    std::size_t index = 0;
    std::erase_if(blocks_, [&](const HeapBlock&) { return taken_out_[index++]; });
    ranges_.push_back({places_.main_arena, places_.main_arena + glibc::arena::kBytes});
    return true;
}

bool GlibcWalk::walk_main_arena() {
    namespace ar = glibc::arena;
    const std::uint64_t arena = places_.main_arena;
    const std::uint64_t base = word(places_.parameters + places_.layout->parameters.sbrk_base);
    const std::uint64_t system = word(arena + ar::kSystemMem);
    const std::uint64_t top = word(arena + ar::kTop);
    if (top == ar::bin(arena, 1) && system == 0) {
        return true; // nothing has been allocated there
    }
    if ((half(arena + ar::kFlagsAt) & ar::kNonContiguous) != 0) {
        return fail("malloc's main arena is not contiguous");
    }
    const std::uint64_t begin = (base + glibc::kAlignment - 1) & ~(glibc::kAlignment - 1);
    const std::uint64_t end = base + system;
    if (base == 0 || top < begin || top >= end) {
        return fail(fmt::format("malloc's main arena is from {:#x} to {:#x}, and its top chunk is "
                                "at {:#x}",
                                base, end, top));
    }
    ranges_.push_back({base, end});
    return walk_chunks(begin, top, 0) && check_top(top, end);
}

bool GlibcWalk::check_top(std::uint64_t top, std::uint64_t end) {
    const std::uint64_t header = word(top + glibc::kSizeAt);
    if (top + size_of(header) != end || (header & glibc::kPrevInUse) == 0) {
        return fail(
            fmt::format("the top chunk at {:#x} should end at {:#x}, and has the size {:#x}", top,
                        end, header));
    }
    return true;
}

// The heaps of an arena are a list, from the one that has the top chunk to the first one, in which
// the arena itself is. A heap that is not the last ends with a chunk of size 0.
bool GlibcWalk::walk_other_arena(std::uint64_t arena) {
    namespace hp = glibc::heap;
    const std::uint64_t top = word(arena + glibc::arena::kTop);
    const std::uint64_t system = word(arena + glibc::arena::kSystemMem);
    const std::uint64_t first_chunk =
        ((arena + glibc::arena::kBytes + glibc::kHeader + glibc::kAlignment - 1) &
         ~(glibc::kAlignment - 1)) -
        glibc::kHeader;
    std::uint64_t total = 0;
    for (std::uint64_t heap = top & ~(hp::kAlignment - 1); heap != 0;) {
        const std::uint64_t size = word(heap + hp::kSize);
        const bool is_first = arena == heap + places_.layout->heap_bytes;
        const bool is_last = top >= heap && top < heap + hp::kAlignment;
        if (word(heap + hp::kArena) != arena || size == 0 || size > hp::kAlignment ||
            is_first != (word(heap + hp::kPrevious) == 0)) {
            return fail(
                fmt::format("the heap at {:#x} is not one of the arena at {:#x}", heap, arena));
        }
        total += size;
        if (total > system) {
            break;
        }
        const std::uint64_t begin = is_first ? first_chunk : heap + places_.layout->heap_bytes;
        const std::uint64_t end = is_last ? top : heap + size - glibc::kHeader;
        if (!is_last && size_of(word(end + glibc::kSizeAt)) != 0) {
            return fail(fmt::format("the heap at {:#x} has no chunk of size 0 at its end", heap));
        }
        if (!walk_chunks(begin, end, glibc::kNonMainArena) ||
            (is_last && !check_top(top, heap + size))) {
            return false;
        }
        ranges_.push_back({heap, heap + size});
        heap = word(heap + hp::kPrevious);
    }
    if (total != system) {
        return fail(fmt::format("the heaps of the arena at {:#x} have {} bytes, and it says {}",
                                arena, total, system));
    }
    return true;
}

bool GlibcWalk::walk_chunks(std::uint64_t begin, std::uint64_t end, std::uint64_t arena_flag) {
    many_.set_end(end + glibc::kHeader); // what is behind it has never been written to
    for (std::uint64_t at = begin; at != end;) {
        const auto header = many_.word(at + glibc::kSizeAt);
        const std::uint64_t size = header ? size_of(*header) : 0;
        // Fences before the end of a heap are smaller than any chunk.
        const bool is_fence = size == glibc::kHeader && arena_flag != 0 && at + size == end;
        if (!header || size % glibc::kAlignment != 0 || size > end - at ||
            (size < glibc::kSmallestChunk && !is_fence) || (*header & glibc::kIsMmapped) != 0) {
            return fail(
                fmt::format("the chunk at {:#x} has the size {:#x}", at, header.value_or(0)));
        }
        FreeChunk free{at, 0, 0};
        if (!is_fence) {
            free.forward = many_.word(at + glibc::kForward).value_or(0);
            free.backward = many_.word(at + glibc::kBackward).value_or(0);
        }
        const auto next = many_.word(at + size + glibc::kSizeAt);
        if (!next) {
            return fail(fmt::format("nothing is mapped behind the chunk at {:#x}", at));
        }
        const bool is_last_of_heap = arena_flag != 0 && size_of(*next) == 0;
        if ((*next & glibc::kPrevInUse) == 0) {
            if (is_fence || word(at + size) != size) {
                return fail(fmt::format("the free chunk at {:#x} has two sizes", at));
            }
            free_.push_back(free);
        } else if (!is_fence && (*header & glibc::kNonMainArena) == arena_flag) {
            blocks_.push_back({RemoteAddr(at + glibc::kHeader), glibc::usable_bytes(size)});
        } else if (!is_fence && !is_last_of_heap) {
            return fail(fmt::format("the chunk at {:#x} belongs to another arena", at));
        }
        at += size;
    }
    return true;
}

bool GlibcWalk::check_bins(std::span<const std::uint64_t> arenas) {
    const auto find = [this](std::uint64_t at) -> const FreeChunk* {
        const auto found =
            std::lower_bound(free_.begin(), free_.end(), at,
                             [](const FreeChunk& chunk, std::uint64_t a) { return chunk.at < a; });
        return found != free_.end() && found->at == at ? &*found : nullptr;
    };
    std::size_t listed = 0;
    for (const std::uint64_t arena : arenas) {
        for (std::uint64_t number = 1; number <= glibc::arena::kBinCount; ++number) {
            const std::uint64_t bin = glibc::arena::bin(arena, number);
            std::uint64_t before = bin;
            std::uint64_t at = word(bin + glibc::kForward);
            while (at != bin) {
                const FreeChunk* chunk = find(at);
                if (chunk == nullptr || chunk->backward != before || ++listed > free_.size()) {
                    return fail(fmt::format("bin {} of the arena at {:#x} lists {:#x}, which is "
                                            "no free chunk of it",
                                            number, arena, at));
                }
                before = at;
                at = chunk->forward;
            }
            if (word(bin + glibc::kBackward) != before) {
                return fail(
                    fmt::format("bin {} of the arena at {:#x} is inconsistent", number, arena));
            }
        }
    }
    if (listed != free_.size()) {
        return fail(
            fmt::format("there are {} free chunks, and {} of them in bins", free_.size(), listed));
    }
    return true;
}

std::optional<std::size_t> GlibcWalk::find_block(std::uint64_t address) const {
    const auto found = std::lower_bound(
        blocks_.begin(), blocks_.end(), address,
        [](const HeapBlock& block, std::uint64_t a) { return block.address.value() < a; });
    return found != blocks_.end() && found->address.value() == address
               ? std::optional(static_cast<std::size_t>(found - blocks_.begin()))
               : std::nullopt;
}

// Chunks there look as if they were in use.
bool GlibcWalk::take_out_fastbins(std::uint64_t arena) {
    for (std::uint64_t bin = 0; bin < glibc::arena::kFastbinCount; ++bin) {
        const std::uint64_t size = glibc::kSmallestChunk + bin * glibc::kAlignment;
        std::uint64_t at = word(arena + glibc::arena::kFastbins + bin * sizeof at);
        while (at != 0) {
            const auto block = find_block(at + glibc::kHeader);
            if (!block || taken_out_[*block] || blocks_[*block].size != glibc::usable_bytes(size)) {
                return fail(fmt::format("fast bin {} of the arena at {:#x} lists {:#x}, which is "
                                        "no chunk of its size",
                                        bin, arena, at));
            }
            take_out(*block);
            const std::uint64_t place = at + glibc::kForward;
            at = places_.layout->reveal(place, word(place));
        }
    }
    return true;
}

} // namespace memleax
