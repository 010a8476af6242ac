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

/// A header lies within one page. `present` ascends.
bool has_page(std::span<const AddrRange> present, std::uint64_t at) {
    const auto part = std::partition_point(present.begin(), present.end(),
                                           [at](const AddrRange& each) { return each.end <= at; });
    return part != present.end() && part->contains(at);
}

} // namespace

// memalign gives what is behind the first aligned place of a larger chunk, whose header stays where
// it was. The true one says how far behind it is.
std::uint64_t GlibcWalk::mmapped_chunk(std::uint64_t base, std::uint64_t end,
                                       std::span<const AddrRange> present) {
    const auto is_rest = [&](std::uint64_t at) {
        if (!has_page(present, at)) {
            return false;
        }
        using Header = std::array<std::uint64_t, 2>; // the next page may have none
        const auto header = memory_.try_read_object<Header>(RemoteAddr(at));
        return header == Header{at - base, (end - at) | glibc::kIsMmapped};
    };
    const std::uint64_t whole = base + glibc::kHeader;
    for (std::uint64_t alignment = 2 * glibc::kAlignment; alignment < end - base; alignment *= 2) {
        const std::uint64_t aligned = (whole + alignment - 1) & ~(alignment - 1);
        // The second one where the first leaves no room for a chunk before it.
        for (const std::uint64_t block : {aligned, aligned + alignment}) {
            if (block > whole && block < end && is_rest(block - glibc::kHeader)) {
                return block - glibc::kHeader;
            }
        }
    }
    return base;
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
                if ((header & glibc::kFlags) != glibc::kIsMmapped || word(begin) != 0 ||
                    size == 0 || size % kPage != 0 || size > mapping.range.end - begin) {
                    begin += kPage;
                    continue;
                }
                const std::uint64_t end = begin + size;
                const std::uint64_t chunk = mmapped_chunk(begin, end, present);
                blocks_.push_back(
                    {RemoteAddr(chunk + glibc::kHeader), end - chunk - glibc::kHeader});
                ranges_.push_back({begin, end});
                ++found;
                sum += size;
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
