// SPDX-License-Identifier: GPL-3.0-or-later
#include "jemalloc_books.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <tuple>

#include <sys/stat.h>

#include "memory_image.hpp"
#include "module_search.hpp"
#include "thread_area.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kBaseAlignment = 2U << 20; ///< HUGEPAGE, or a part of it
constexpr std::uint64_t kPrecedingMark = 0x7a7a7a7a7a7a7a7a;
constexpr std::uint64_t kTrailingMark = 0xa7a7a7a7a7a7a7a7;

using Words = std::array<std::uint64_t, 5>;

/// EDATA_BITS: no arena has this number, it is no slab, committed, zeroed, not guarded, active.
bool are_bits_of_base(std::uint64_t bits) {
    constexpr std::uint64_t kMask = 0xfffff;
    constexpr std::uint64_t kBits = 0x0afff;
    constexpr unsigned kUsedBits = 28; // the rest is of slabs and heads
    return (bits & kMask) == kBits && bits >> kUsedBits == 0;
}

/// What of a base block at this place has been used; and how far it reaches.
struct BaseBlock {
    AddrRange used;
    std::uint64_t end = 0;
};

std::optional<BaseBlock> base_block_at(MemoryReader& memory, std::uint64_t at,
                                       const AddrRange& mapping) {
    const auto words = memory.try_read_object<Words>(RemoteAddr(at));
    if (!words) {
        return std::nullopt;
    }
    const auto [size, next, bits, unused, unused_size] = *words;
    const bool is_one = size != 0 && size % kBaseAlignment == 0 && size <= mapping.end - at &&
                        next % kBaseAlignment == 0 && are_bits_of_base(bits) && unused > at &&
                        unused <= at + size && unused_size == at + size - unused;
    return is_one ? std::optional(BaseBlock{{at, unused}, at + size}) : std::nullopt;
}

/// The words that are extents' begins.
void add_extents(MemoryReader& memory, const BaseBlock& block, const PresentPages& pages,
                 std::vector<AddrRange>* found) {
    constexpr std::uint64_t kAlignment = 128; // EDATA_ALIGNMENT
    constexpr std::uint64_t kCommitted = 0x2000;
    constexpr unsigned kUsedBits = 46;
    constexpr std::uint64_t kPage = 4096; // the smallest one; below is the number
    for (const AddrRange& part : pages.in(block.used, PresentPages::Kind::own)) {
        const MemoryImage image(memory, part);
        for (std::uint64_t at = 0; at + kAlignment <= image.size(); at += kAlignment) {
            const std::uint64_t bits = image.word(at);
            if ((bits & kCommitted) != 0 && bits >> kUsedBits == 0 &&
                image.word(at + 16) >= kPage) {
                const std::uint64_t place = image.begin() + at + 8;
                found->push_back({place, place + 8});
            }
        }
    }
}

void add_base_blocks(MemoryReader& memory, const Mapping& mapping, const PresentPages& pages,
                     std::vector<AddrRange>* found) {
    const AddrRange& range = mapping.range;
    std::uint64_t at = (range.begin + kBaseAlignment - 1) & ~(kBaseAlignment - 1);
    while (at < range.end && range.end - at >= kBaseAlignment) {
        const bool is_present =
            !pages.in({at, at + sizeof(Words)}, PresentPages::Kind::own).empty();
        const auto block = is_present ? base_block_at(memory, at, range) : std::nullopt;
        if (block) {
            add_extents(memory, *block, pages, found);
        }
        at = block ? block->end : at + kBaseAlignment;
    }
}

/// A bin of a cache: where its stack is.
struct Bin {
    static constexpr std::uint64_t kBytes = 24;
    std::uint64_t full = 0;
    std::uint64_t empty = 0;

    static std::optional<Bin> at(const MemoryImage& image, std::uint64_t offset) {
        const std::uint64_t head = image.word(offset);
        const std::uint64_t low_bits = image.word(offset + 16);
        const auto full = static_cast<std::uint16_t>(low_bits >> 16);
        const auto empty = static_cast<std::uint16_t>(low_bits >> 32);
        const auto low = static_cast<std::uint16_t>(head);
        if (head == 0 || head % 8 != 0 || full % 8 != 0 || empty % 8 != 0) {
            return std::nullopt;
        }
        return Bin{head - static_cast<std::uint16_t>(low - full),
                   head + static_cast<std::uint16_t>(empty - low)};
    }
};

/// The stacks of the cache whose bins begin at this place, if there is one.
std::optional<AddrRange> stacks_of_cache(MemoryReader& memory, const MemoryImage& image,
                                         std::uint64_t offset) {
    constexpr std::uint64_t kPage = 4096; // the smallest one, to which they are aligned
    constexpr int kFewestBins = 8;
    constexpr std::uint64_t kSlowBins = 32;
    const auto first = Bin::at(image, offset);
    if (!first || first->full % kPage != 8) {
        return std::nullopt;
    }
    const std::uint64_t begin = first->full - 8;
    const auto slow = memory.try_read_object<std::array<std::uint64_t, 2>>(
        RemoteAddr(image.word(offset - 8) + kSlowBins));
    if (!slow || (*slow)[0] != image.begin() + offset || (*slow)[1] == 0 ||
        memory.try_read_object<std::uint64_t>(RemoteAddr(begin)) != kPrecedingMark) {
        return std::nullopt;
    }
    std::uint64_t end = first->full;
    int bins = 0;
    for (; offset + Bin::kBytes <= image.size(); offset += Bin::kBytes, ++bins) {
        const auto bin = Bin::at(image, offset);
        if (!bin || bin->full != end || bin->empty < end) {
            break;
        }
        end = bin->empty;
    }
    const bool is_whole = bins >= kFewestBins &&
                          memory.try_read_object<std::uint64_t>(RemoteAddr(end)) == kTrailingMark;
    return is_whole ? std::optional(AddrRange{begin, end + 8}) : std::nullopt;
}

void add_cache(MemoryReader& memory, const Mapping& mapping, const ThreadView& thread,
               std::vector<AddrRange>* found) {
    constexpr std::uint64_t kMostTls = 64 << 10;
    const std::uint64_t pointer = thread.thread_pointer;
    const AddrRange tls =
        arch::kTlsIsAbovePointer
            ? AddrRange{pointer, std::min(pointer + kMostTls, mapping.range.end)}
            : AddrRange{std::max(pointer - kMostTls, mapping.range.begin), pointer};
    const MemoryImage image(memory, {(tls.begin + 7) & ~7ULL, tls.end});
    for (std::uint64_t at = 8; at + Bin::kBytes <= image.size(); at += 8) {
        if (const auto stacks = stacks_of_cache(memory, image, at)) {
            found->push_back(*stacks);
            return;
        }
    }
}

/// The processes of a browser have one file of 300 MB.
class FilesOfJemalloc {
  public:
    static bool have(const Module& module) {
        constexpr std::string_view kVersion = "5.3.0-0-g";
        struct stat status {};
        if (fstat(module.image->descriptor(), &status) != 0) {
            return false;
        }
        static FilesOfJemalloc files;
        const std::lock_guard lock(files.mutex_);
        const auto [known, is_new] =
            files.known_.try_emplace(File{status.st_dev, status.st_ino, status.st_size,
                                          status.st_mtim.tv_sec, status.st_mtim.tv_nsec},
                                     false);
        if (is_new) {
            search_file(module, [&has = known->second, kVersion](std::string_view text) {
                has = text.find(kVersion) != std::string_view::npos;
                return has;
            });
        }
        return known->second;
    }

  private:
    using File = std::tuple<dev_t, ino_t, off_t, time_t, long>; // size, and when it was changed
    std::mutex mutex_;
    std::map<File, bool> known_;
};

} // namespace

bool has_jemalloc(const ModuleMap& modules) {
    return std::any_of(modules.all().begin(), modules.all().end(), [&](const auto& module) {
        if (module->unloaded || !module->image ||
            (module.get() != modules.main() && !exports(*module, "malloc"))) {
            return false;
        }
        return FilesOfJemalloc::have(*module);
    });
}

std::vector<AddrRange> find_jemalloc_books(MemoryReader& memory, std::span<const Mapping> mappings,
                                           const PresentPages& pages,
                                           std::span<const ThreadView> threads) {
    std::vector<AddrRange> found;
    for (const Mapping& mapping : mappings) {
        if (!mapping.readable || !mapping.writable || mapping.shared || mapping.inode != 0) {
            continue;
        }
        add_base_blocks(memory, mapping, pages, &found);
        for (const ThreadView& thread : threads) {
            if (mapping.range.contains(thread.thread_pointer)) {
                add_cache(memory, mapping, thread, &found);
            }
        }
    }
    std::sort(found.begin(), found.end(),
              [](const AddrRange& a, const AddrRange& b) { return a.begin < b.begin; });
    // Two threads that were told to be one, as they begin or end, or stacks in a base block.
    const auto overlap =
        std::unique(found.begin(), found.end(),
                    [](const AddrRange& a, const AddrRange& b) { return b.begin < a.end; });
    found.erase(overlap, found.end());
    return found;
}

} // namespace memleax
