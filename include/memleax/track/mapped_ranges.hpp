// SPDX-License-Identifier: GPL-3.0-or-later
/// Which addresses belong to which mapping: ranges that can end in part.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/track/range_map.hpp"

namespace memleax {

/// The number of a mapping: later ones have larger numbers. Never reused.
using MappingId = Strong<struct MappingIdTag, std::uint64_t>;

/// What one call has mapped.
struct MappedMemory {
    AddrRange whole; ///< as it was mapped
    MemoryKind kind{};
    StackId stack;           ///< of the call
    Tid tid;                 ///< by whom
    MonotonicNs time;        ///< when
    std::uint64_t bytes = 0; ///< that are left, those that are cut out for now included
    bool expired = false;
};

/// No two mappings share an address. Each operation costs the logarithm of the number of pieces,
/// and what it touches. Not thread-safe.
class MappedRanges {
  public:
    /// A part of a mapping: the addresses are its, and no other's.
    using Piece = RangeMap<MappingId>::Piece;

    /// A mapping begins; `memory.whole` is not empty, and nothing is there (see cut()).
    MappingId insert(const MappedMemory& memory);
    /// Takes out what lies in this range, lowest address first. Its mappings still have these
    /// bytes, until unmap(); put_back() gives the addresses back to them.
    std::vector<Piece> cut(AddrRange range) { return pieces_.cut(range); }
    /// Likewise all that is left of the newest mapping of this kind that began at this address.
    std::vector<Piece> cut_mapping(MemoryKind kind, RemoteAddr begin);
    /// Pieces that were cut out are there again, but for addresses that others have got meanwhile:
    /// those are returned, still cut out.
    std::vector<Piece> put_back(std::span<const Piece> pieces) {
        return pieces_.add_where_free(pieces);
    }
    /// The bytes of a piece that was cut out are gone. The mapping as it is then; with `bytes` 0 it
    /// is not known any more.
    MappedMemory unmap(const Piece& piece);

    [[nodiscard]] const MappedMemory& operator[](MappingId id) const { return mappings_.at(id); }
    /// The mapping that this address belongs to.
    [[nodiscard]] std::optional<MappingId> find(RemoteAddr address) const {
        return pieces_.find(address);
    }
    /// How many bytes of a range belong to any.
    [[nodiscard]] std::uint64_t covered(AddrRange range) const { return pieces_.covered(range); }
    /// By address.
    [[nodiscard]] std::vector<Piece> pieces() const { return pieces_.pieces(); }
    [[nodiscard]] const std::map<MappingId, MappedMemory>& mappings() const { return mappings_; }

    /// The oldest one that can leak, is not marked as expired, and began at `latest` or before.
    [[nodiscard]] std::optional<MappingId> next_to_expire(MonotonicNs latest) const;
    [[nodiscard]] std::optional<MonotonicNs> oldest_young() const;
    void mark_expired(MappingId id);

    void clear();

  private:
    RangeMap<MappingId> pieces_;
    std::map<MappingId, MappedMemory> mappings_;
    std::set<MappingId> young_; ///< in order of age, as ids are
    std::uint64_t next_id_ = 0;
};

} // namespace memleax
