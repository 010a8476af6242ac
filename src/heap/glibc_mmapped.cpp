// SPDX-License-Identifier: GPL-3.0-or-later
// Chunks that are mappings of their own. malloc keeps no list of them, only how many there are and
// their bytes; the kernel merges what is mapped side by side. So each page that begins as such a
// chunk does is one, and the sums have to agree.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <unistd.h>

#include "glibc_layout.hpp"
#include "glibc_walk.hpp"

namespace memleax {

namespace {

const std::uint64_t kPage = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));

constexpr std::uint64_t kMostBytes = 1ULL << 47; ///< of an address space

/// A header lies within one page. `present` ascends.
bool has_page(std::span<const AddrRange> present, std::uint64_t at) {
    const auto part = std::partition_point(present.begin(), present.end(),
                                           [at](const AddrRange& each) { return each.end <= at; });
    return part != present.end() && part->contains(at);
}

} // namespace

// memalign gives what is behind the first aligned place of a larger chunk, whose header stays where
// it was. The true one says how far behind it is, and has the true end: realloc, which has the
// mapping moved or cut by mremap(2), leaves the first header as it was.
std::optional<AddrRange> GlibcWalk::aligned_rest(std::uint64_t base, std::uint64_t size,
                                                 std::uint64_t limit,
                                                 std::span<const AddrRange> present) {
    const auto end_of_rest = [&](std::uint64_t at) -> std::uint64_t {
        using Header = std::array<std::uint64_t, 2>; // the next page may have none
        const auto header =
            has_page(present, at) ? memory_.try_read_object<Header>(RemoteAddr(at)) : std::nullopt;
        if (!header || (*header)[0] != at - base ||
            ((*header)[1] & glibc::kFlags) != glibc::kIsMmapped) {
            return 0;
        }
        const std::uint64_t rest = (*header)[1] & ~glibc::kFlags;
        return rest > glibc::kHeader && rest <= limit - at && (at + rest) % kPage == 0 ? at + rest
                                                                                       : 0;
    };
    const std::uint64_t whole = base + glibc::kHeader;
    const std::uint64_t last = std::min(limit, base + size); // it began before that
    for (std::uint64_t alignment = 2 * glibc::kAlignment; alignment < size; alignment *= 2) {
        const std::uint64_t aligned = (whole + alignment - 1) & ~(alignment - 1);
        // The second one where the first leaves no room for a chunk before it.
        for (const std::uint64_t block : {aligned, aligned + alignment}) {
            const std::uint64_t at = block - glibc::kHeader;
            const std::uint64_t end = block > whole && block < last ? end_of_rest(at) : 0;
            if (end != 0) {
                return AddrRange{at, end};
            }
        }
    }
    return std::nullopt;
}

bool GlibcWalk::walk_mmapped() {
    const glibc::ParameterPlaces& mp = places_.layout->parameters;
    const std::uint32_t count = half(places_.parameters + mp.mmaps);
    const std::uint64_t bytes = word(places_.parameters + mp.mmapped_mem);
    std::uint32_t found = 0;
    std::uint64_t sum = 0;
    const auto is_malloc = [this](std::uint64_t at) {
        return std::any_of(ranges_.begin(), ranges_.end(),
                           [at](const AddrRange& range) { return range.contains(at); });
    };
    for (const Mapping& mapping : input_.mappings) {
        if (found == count && sum == bytes) {
            break;
        }
        if (!mapping.readable || !mapping.writable || mapping.shared || mapping.inode != 0 ||
            !mapping.path.empty() || is_malloc(mapping.range.begin)) {
            continue;
        }
        std::uint64_t begin = mapping.range.begin;
        const std::vector<AddrRange> present = input_.present(mapping.range);
        for (const AddrRange& part : present) {
            begin = std::max(begin, part.begin);
            while (begin < part.end) {
                const std::uint64_t header = word(begin + glibc::kSizeAt);
                const std::uint64_t size = header & ~glibc::kFlags;
                const std::uint64_t limit = mapping.range.end;
                const bool may_be_chunk = (header & glibc::kFlags) == glibc::kIsMmapped &&
                                          word(begin) == 0 && size != 0 && size % kPage == 0 &&
                                          size <= kMostBytes;
                auto chunk =
                    may_be_chunk ? aligned_rest(begin, size, limit, present) : std::nullopt;
                if (!chunk && may_be_chunk && size <= limit - begin) {
                    chunk = AddrRange{begin, begin + size};
                }
                if (!chunk) {
                    begin += kPage;
                    continue;
                }
                const std::uint64_t end = chunk->end;
                blocks_.push_back({RemoteAddr(chunk->begin + glibc::kHeader),
                                   end - chunk->begin - glibc::kHeader});
                ranges_.push_back({begin, end});
                ++found;
                sum += end - begin;
                begin = end;
            }
        }
    }
    if (found != count || sum != bytes) {
        return fail(fmt::format("malloc has {} blocks mapped, of {} bytes, and {} of {} bytes are "
                                "found",
                                count, bytes, found, sum));
    }
    return true;
}

} // namespace memleax
