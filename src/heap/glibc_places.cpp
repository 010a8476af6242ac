// SPDX-License-Identifier: GPL-3.0-or-later
#include "glibc_places.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "glibc_layout.hpp"
#include "memory_image.hpp"

namespace memleax {

namespace {

/// So many of an arena's bins have to be whole: empty, or lists whose ends lead back to them. Not
/// all, as a thread may have been stopped at work in some. Words that are no arena have none.
constexpr std::uint64_t kFewestWhole = glibc::arena::kBinCount / 4;

/// Reads the chunks at both ends of the lists of bins that are not empty. These pointers may be any
/// words of the target: they are followed into its heap only, and one step far.
class BinLists {
  public:
    BinLists(MemoryReader& memory, AddrRange heap) : memory_(memory), heap_(heap) {}

    [[nodiscard]] bool may_be_list(std::uint64_t forward, std::uint64_t backward) const {
        return heap_.contains(forward) && heap_.contains(backward);
    }

    /// Does the arena at this place have so many whole ones?
    bool are_whole(const MemoryImage& image, std::uint64_t offset, std::uint64_t wanted) {
        if (places_left_ == 0) {
            return false;
        }
        --places_left_;
        for (std::uint64_t bin = 1; bin <= glibc::arena::kBinCount && wanted != 0; ++bin) {
            const std::uint64_t place = glibc::arena::bin(offset, bin);
            const std::uint64_t self = image.begin() + place;
            const std::uint64_t forward = image.word(place + glibc::kForward);
            const std::uint64_t backward = image.word(place + glibc::kBackward);
            if (may_be_list(forward, backward) && leads(forward + glibc::kBackward, self) &&
                leads(backward + glibc::kForward, self)) {
                --wanted;
            }
        }
        return wanted == 0;
    }

  private:
    bool leads(std::uint64_t link, std::uint64_t bin) {
        return memory_.try_read_object<std::uint64_t>(RemoteAddr(link)) == bin;
    }

    MemoryReader& memory_;
    AddrRange heap_;
    /// There is one as a rule. Memory that a program has made for it can have such a place at each
    /// word; the reads of 64 are done within milliseconds.
    int places_left_ = 64;
};

/// All of it has to look as it should: what lies 16 bytes off has the same bins but for one, which
/// top and last_remainder may look like. Its next arena is a map of bins, and may look like one;
/// its top is the ninth fast bin, which is not used unless mallopt(3) has asked for that.
bool is_arena(const MemoryImage& image, std::uint64_t offset, std::uint64_t heap_bytes,
              BinLists& lists) {
    const std::uint64_t next = image.word(offset + glibc::arena::kNext);
    const std::uint64_t system = image.word(offset + glibc::arena::kSystemMem);
    const std::uint64_t top = image.word(offset + glibc::arena::kTop);
    const bool is_in_circle =
        next == image.begin() + offset || next % glibc::heap::kAlignment == heap_bytes;
    if (!is_in_circle || system > image.word(offset + glibc::arena::kMaxSystemMem) ||
        image.half(offset + glibc::arena::kFlagsAt) > 3 || top == 0 || top % 8 != 0) {
        return false;
    }
    // Not another bin: those of an arena a few words away are.
    const AddrRange own{image.begin() + offset, image.begin() + offset + glibc::arena::kBytes};
    const auto may_be_chunk = [own](std::uint64_t at) {
        return at != 0 && at % glibc::kAlignment == 0 && !own.contains(at);
    };
    constexpr std::uint64_t kMostOthers = glibc::arena::kBinCount - kFewestWhole;
    std::uint64_t empty = 0;
    std::uint64_t others = 0;
    for (std::uint64_t bin = 1; bin <= glibc::arena::kBinCount; ++bin) {
        const std::uint64_t place = glibc::arena::bin(offset, bin);
        const std::uint64_t self = image.begin() + place;
        const std::uint64_t forward = image.word(place + glibc::kForward);
        const std::uint64_t backward = image.word(place + glibc::kBackward);
        if ((forward == self) != (backward == self)) {
            return false;
        }
        if (forward == self) {
            ++empty;
        } else if (!may_be_chunk(forward) || !may_be_chunk(backward)) {
            return false;
        } else if (!lists.may_be_list(forward, backward) && ++others > kMostOthers) {
            return false;
        }
    }
    // In a heap with free chunks of most sizes few bins are empty. Last, as it reads more than the
    // image.
    return empty >= kFewestWhole || lists.are_whole(image, offset, kFewestWhole - empty);
}

/// As it is in the file of libc, before the first call of malloc (ptmalloc_init): in a circle of
/// its own, with one thread, and zero elsewhere.
bool is_unused_arena(const MemoryImage& image, std::uint64_t offset) {
    namespace ar = glibc::arena;
    if (image.word(offset + ar::kNext) != image.begin() + offset ||
        image.word(offset + ar::kAttachedThreads) != 1) {
        return false;
    }
    for (std::uint64_t at = 0; at < ar::kBytes; at += sizeof at) {
        if (at != ar::kNext && at != ar::kAttachedThreads && image.word(offset + at) != 0) {
            return false;
        }
    }
    return true;
}

bool are_parameters(const MemoryImage& image, std::uint64_t offset,
                    const glibc::ParameterPlaces& mp, AddrRange heap) {
    namespace first = glibc::parameters;
    constexpr std::uint64_t kMostArenas = 1U << 16;
    constexpr std::uint64_t kMostCached = 1032; ///< bytes: tcache_max_bytes
    const auto word = [&](std::uint64_t at) { return image.word(offset + at); };
    const std::uint64_t sbrk_base = word(mp.sbrk_base);
    const std::uint64_t mapped = word(mp.mmapped_mem);
    const std::uint32_t count = image.half(offset + mp.mmaps);
    const std::uint32_t most = image.half(offset + mp.most_mmaps);
    return word(mp.tcache_bins) >= 1 && word(mp.tcache_bins) <= glibc::tcache::kBins &&
           word(mp.tcache_max_bytes) >= 24 && word(mp.tcache_max_bytes) <= kMostCached &&
           word(mp.tcache_count) <= 0xffff && word(first::kArenaTest) >= 1 &&
           word(first::kArenaTest) <= kMostArenas && word(first::kMmapThreshold) != 0 &&
           image.half(offset + mp.no_dyn_threshold) <= 1 && count <= most &&
           mapped <= word(mp.max_mmapped_mem) && (count == 0) == (mapped == 0) &&
           (sbrk_base == 0 || heap.contains(sbrk_base));
}

} // namespace

Result<GlibcPlaces> find_glibc_places(const Glibc& libc, std::span<const Mapping> mappings,
                                      MemoryReader& memory, const PresentParts& present) {
    GlibcPlaces places;
    places.layout = libc.layout;
    places.entry_points = libc.entry_points;
    const AddrRange own = libc.module->range;
    AddrRange heap{};
    for (const Mapping& mapping : mappings) {
        if (mapping.path == "[heap]") {
            heap = {heap.begin != 0 ? heap.begin : mapping.range.begin, mapping.range.end};
        }
    }
    BinLists lists(memory, heap);
    std::vector<std::uint64_t> arenas;
    std::vector<std::uint64_t> parameters;
    for (const Mapping& mapping : mappings) {
        if (!mapping.writable || mapping.range.begin < own.begin || mapping.range.end > own.end) {
            continue;
        }
        const auto pages = parts_to_search(mapping, present);
        for_each_image(memory, mapping.range, pages, [&](const MemoryImage& image) {
            const auto found = image.find_all(glibc::arena::kBytes, [&](std::uint64_t at) {
                return is_arena(image, at, libc.layout->heap_bytes, lists) ||
                       is_unused_arena(image, at);
            });
            arenas.insert(arenas.end(), found.begin(), found.end());
            const auto more = image.find_all(libc.layout->parameters.bytes, [&](std::uint64_t at) {
                return are_parameters(image, at, libc.layout->parameters, heap);
            });
            parameters.insert(parameters.end(), more.begin(), more.end());
        });
    }
    if (arenas.size() != 1 || parameters.size() != 1) {
        return Error(
            fmt::format("the heap cannot be read: in {} there are {} places that look like "
                        "malloc's main arena, and {} that look like its parameters",
                        libc.module->path, arenas.size(), parameters.size()),
            EAGAIN);
    }
    places.main_arena = arenas.front();
    places.parameters = parameters.front();
    return places;
}

} // namespace memleax
