// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

/// Words of a writable mapping, in which something is looked for at each place.
class MemoryImage {
  public:
    /// Up to what cannot be read.
    MemoryImage(MemoryReader& memory, AddrRange range)
        : begin_(range.begin), places_(range.size()), bytes_(range.size()) {
        bytes_.resize(memory.try_read(RemoteAddr(range.begin), bytes_));
    }
    /// Only `present`, which ascends, is read; all else is zero. Things are looked for that begin
    /// before `places_end`.
    MemoryImage(MemoryReader& memory, AddrRange range, std::span<const AddrRange> present,
                std::uint64_t places_end)
        : begin_(range.begin), places_(places_end - range.begin), bytes_(range.size()) {
        for (const AddrRange& part : present) {
            if (part.overlaps(range)) {
                const AddrRange common = part.common_with(range);
                memory.try_read(RemoteAddr(common.begin),
                                std::span(bytes_).subspan(common.begin - begin_, common.size()));
            }
        }
    }
    [[nodiscard]] std::uint64_t begin() const { return begin_; }
    [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }
    [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
        return at<std::uint64_t>(offset);
    }
    [[nodiscard]] std::uint32_t half(std::uint64_t offset) const {
        return at<std::uint32_t>(offset);
    }
    /// The addresses of all places, 8 bytes apart, with so many bytes, for whose offsets `is` is
    /// true.
    template <class Is> std::vector<std::uint64_t> find_all(std::uint64_t bytes, Is&& is) const {
        std::vector<std::uint64_t> found;
        for (std::uint64_t offset = 0; offset < places_ && offset + bytes <= size(); offset += 8) {
            if (is(offset)) {
                found.push_back(begin_ + offset);
            }
        }
        return found;
    }

  private:
    template <class T> [[nodiscard]] T at(std::uint64_t offset) const {
        T value = 0;
        std::memcpy(&value, &bytes_[offset], sizeof value);
        return value;
    }

    std::uint64_t begin_;
    std::uint64_t places_;
    std::vector<std::byte> bytes_;
};

/// Images of a mapping, piece by piece: each place in it at which something may begin that is not
/// all zero, and has up to kMost bytes, is looked at once. What has no page is not read, as that
/// would make one; there may be gigabytes of that among a program's variables. `present` ascends.
template <class Each>
void for_each_image(MemoryReader& memory, AddrRange range, std::span<const AddrRange> present,
                    Each&& each) {
    constexpr std::uint64_t kMost = 4096;
    constexpr std::uint64_t kPiece = 16U << 20;
    std::uint64_t at = range.begin;
    for (const AddrRange& part : present) {
        if (!part.overlaps(range)) {
            continue;
        }
        const std::uint64_t part_begin = std::max(part.begin, range.begin);
        at = std::max(at, part_begin - std::min(kMost, part_begin - range.begin));
        const std::uint64_t part_end = std::min(part.end, range.end);
        while (at < part_end) {
            const std::uint64_t places_end = std::min(at + kPiece, part_end);
            const std::uint64_t end = std::min(places_end + kMost, range.end);
            each(MemoryImage(memory, {at, end}, present, places_end));
            at = places_end;
        }
    }
}

} // namespace memleax
