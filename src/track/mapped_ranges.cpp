// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/mapped_ranges.hpp"

#include <algorithm>
#include <iterator>

#include "memleax/base/error.hpp"

namespace memleax {

MappedRanges::Pieces::const_iterator MappedRanges::first_behind(std::uint64_t address) const {
    auto it = pieces_.upper_bound(address);
    if (it != pieces_.begin() && std::prev(it)->second.end > address) {
        --it;
    }
    return it;
}

void MappedRanges::add_piece(AddrRange range, MappingId mapping) {
    auto next = pieces_.lower_bound(range.begin);
    if (next != pieces_.end() && next->first == range.end && next->second.mapping == mapping) {
        range.end = next->second.end;
        next = pieces_.erase(next);
    }
    if (next != pieces_.begin()) {
        const auto before = std::prev(next);
        if (before->second.end == range.begin && before->second.mapping == mapping) {
            before->second.end = range.end;
            return;
        }
    }
    pieces_.emplace_hint(next, range.begin, End{range.end, mapping});
}

MappingId MappedRanges::insert(const MappedMemory& memory) {
    MEMLEAX_ASSERT(!memory.whole.empty() && covered(memory.whole) == 0);
    const MappingId id(next_id_++);
    MappedMemory& added = mappings_.emplace_hint(mappings_.end(), id, memory)->second;
    added.bytes = memory.whole.size();
    pieces_.emplace(memory.whole.begin, End{memory.whole.end, id});
    if (is_programs_own(memory.kind)) {
        young_.insert(young_.end(), id);
    }
    return id;
}

std::vector<MappedRanges::Piece> MappedRanges::cut(AddrRange range) {
    std::vector<Piece> result;
    if (range.empty()) {
        return result;
    }
    for (auto it = first_behind(range.begin); it != pieces_.end() && it->first < range.end;) {
        const AddrRange piece{it->first, it->second.end};
        const MappingId mapping = it->second.mapping;
        it = pieces_.erase(it);
        if (piece.begin < range.begin) {
            pieces_.emplace_hint(it, piece.begin, End{range.begin, mapping});
        }
        if (piece.end > range.end) {
            it = pieces_.emplace_hint(it, range.end, End{piece.end, mapping});
        }
        result.push_back({piece.common_with(range), mapping});
    }
    return result;
}

std::vector<MappedRanges::Piece> MappedRanges::cut_mapping(MemoryKind kind, RemoteAddr begin) {
    const auto found = std::find_if(mappings_.rbegin(), mappings_.rend(), [&](const auto& each) {
        return each.second.kind == kind && each.second.whole.begin == begin.value();
    });
    std::vector<Piece> result;
    if (found == mappings_.rend()) {
        return result;
    }
    const auto& [id, memory] = *found;
    for (auto it = pieces_.lower_bound(memory.whole.begin);
         it != pieces_.end() && it->first < memory.whole.end;) {
        if (it->second.mapping == id) {
            result.push_back({{it->first, it->second.end}, id});
            it = pieces_.erase(it);
        } else {
            ++it;
        }
    }
    return result;
}

std::vector<MappedRanges::Piece> MappedRanges::put_back(std::span<const Piece> pieces) {
    std::vector<Piece> taken;
    for (const Piece& piece : pieces) {
        std::uint64_t at = piece.range.begin;
        while (at < piece.range.end) {
            const auto other = first_behind(at);
            const bool is_last = other == pieces_.end() || other->first >= piece.range.end;
            const std::uint64_t free_end = is_last ? piece.range.end : std::max(other->first, at);
            const std::uint64_t next =
                is_last ? piece.range.end : std::min(other->second.end, piece.range.end);
            if (free_end < next) {
                taken.push_back({{free_end, next}, piece.mapping});
            }
            if (at < free_end) {
                add_piece({at, free_end}, piece.mapping);
            }
            at = next;
        }
    }
    return taken;
}

MappedMemory MappedRanges::unmap(const Piece& piece) {
    const auto it = mappings_.find(piece.mapping);
    MEMLEAX_ASSERT(it != mappings_.end() && it->second.bytes >= piece.range.size());
    it->second.bytes -= piece.range.size();
    const MappedMemory left = it->second;
    if (left.bytes == 0) {
        young_.erase(piece.mapping);
        mappings_.erase(it);
    }
    return left;
}

std::optional<MappingId> MappedRanges::find(RemoteAddr address) const {
    const auto it = first_behind(address.value());
    return it != pieces_.end() && it->first <= address.value() ? std::optional(it->second.mapping)
                                                               : std::nullopt;
}

std::uint64_t MappedRanges::covered(AddrRange range) const {
    std::uint64_t bytes = 0;
    for (auto it = first_behind(range.begin); it != pieces_.end() && it->first < range.end; ++it) {
        bytes += AddrRange{it->first, it->second.end}.common_with(range).size();
    }
    return bytes;
}

std::vector<MappedRanges::Piece> MappedRanges::pieces() const {
    std::vector<Piece> result;
    result.reserve(pieces_.size());
    for (const auto& [begin, piece] : pieces_) {
        result.push_back({{begin, piece.end}, piece.mapping});
    }
    return result;
}

std::optional<MappingId> MappedRanges::next_to_expire(MonotonicNs latest) const {
    const auto oldest = oldest_young();
    return oldest && *oldest <= latest ? std::optional(*young_.begin()) : std::nullopt;
}

std::optional<MonotonicNs> MappedRanges::oldest_young() const {
    return young_.empty() ? std::nullopt : std::optional(mappings_.at(*young_.begin()).time);
}

void MappedRanges::mark_expired(MappingId id) {
    mappings_.at(id).expired = true;
    young_.erase(id);
}

void MappedRanges::clear() {
    pieces_.clear();
    mappings_.clear();
    young_.clear();
}

} // namespace memleax
