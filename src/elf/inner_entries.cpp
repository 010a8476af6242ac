// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/inner_entries.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>

#include <unistd.h>

#include "arch.hpp"

namespace memleax {

namespace {

/// Longer than any branch.
constexpr std::uint64_t kOverlap = 16;

using EachPiece = std::function<void(ElfAddr from, std::span<const std::uint8_t> code)>;

/// In pieces that overlap. False if it cannot all be read.
bool for_each_piece(const ElfImage& image, const ElfSegment& segment, const EachPiece& each) {
    std::vector<std::uint8_t> buffer(std::size_t{256} * 1024);
    for (std::uint64_t at = 0; at < segment.file_size; at += buffer.size() - kOverlap) {
        const std::uint64_t size = std::min<std::uint64_t>(buffer.size(), segment.file_size - at);
        const std::uint64_t offset = segment.offset.value() + at;
        const auto bytes = image.bytes();
        if (offset + size <= bytes.size()) {
            std::memcpy(buffer.data(), &bytes[offset], size);
        } else if (pread(image.descriptor(), buffer.data(), size, static_cast<off_t>(offset)) !=
                   static_cast<ssize_t>(size)) {
            return false;
        }
        each(ElfAddr(segment.address.value() + at), std::span(buffer).first(size));
    }
    return true;
}

} // namespace

std::set<ElfAddr> find_inner_entries(const ElfImage& image, std::vector<ElfAddr> all) {
    std::set<ElfAddr> result;
    if (all.empty()) {
        return result;
    }
    std::sort(all.begin(), all.end());
    const auto add_if_inside = [&](ElfAddr address) {
        const auto behind = std::lower_bound(all.begin(), all.end(), address);
        if (behind != all.begin() &&
            address.value() - std::prev(behind)->value() < arch::kEntryJumpBytes) {
            result.insert(*std::prev(behind));
        }
    };
    for (const SymbolTable table : {SymbolTable::dynamic, SymbolTable::full}) {
        image.for_each_function(table,
                                [&](const ElfSymbol& symbol) { add_if_inside(symbol.address); });
    }
    constexpr std::uint64_t kMostCode = std::uint64_t{1} << 30U;
    std::uint64_t left = kMostCode;
    const AddrRange inside{all.front().value() + 1, all.back().value() + arch::kEntryJumpBytes};
    const auto look_at = [&](ElfAddr from, std::span<const std::uint8_t> code) {
        arch::for_each_branch_into(inside, CodeAddr(from.value()), code, [&](CodeAddr target) {
            add_if_inside(ElfAddr(target.value()));
        });
    };
    for (const ElfSegment& segment : image.segments()) {
        if (!segment.executable) {
            continue;
        }
        if (segment.file_size > left || !for_each_piece(image, segment, look_at)) {
            return {all.begin(), all.end()};
        }
        left -= segment.file_size;
    }
    return result;
}

} // namespace memleax
