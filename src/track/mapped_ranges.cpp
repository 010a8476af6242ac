// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/mapped_ranges.hpp"

#include <algorithm>

#include "memleax/base/error.hpp"

namespace memleax {

MappingId MappedRanges::insert(const MappedMemory& memory) {
    MEMLEAX_ASSERT(!memory.whole.empty() && covered(memory.whole) == 0);
    const MappingId id(next_id_++);
    MappedMemory& added = mappings_.emplace_hint(mappings_.end(), id, memory)->second;
    added.bytes = memory.whole.size();
    pieces_.add(memory.whole, id); // joined to nobody's: the number is new
    if (is_programs_own(memory.kind)) {
        young_.insert(young_.end(), id);
    }
    return id;
}

std::vector<MappedRanges::Piece> MappedRanges::cut_mapping(MemoryKind kind, RemoteAddr begin) {
    const auto found = std::find_if(mappings_.rbegin(), mappings_.rend(), [&](const auto& each) {
        return each.second.kind == kind && each.second.whole.begin == begin.value();
    });
    return found != mappings_.rend() ? pieces_.cut_all_of(found->first, found->second.whole)
                                     : std::vector<Piece>();
}

MappedMemory MappedRanges::unmap(const Piece& piece) {
    const auto it = mappings_.find(piece.value);
    MEMLEAX_ASSERT(it != mappings_.end() && it->second.bytes >= piece.range.size());
    it->second.bytes -= piece.range.size();
    const MappedMemory left = it->second;
    if (left.bytes == 0) {
        young_.erase(piece.value);
        mappings_.erase(it);
    }
    return left;
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
