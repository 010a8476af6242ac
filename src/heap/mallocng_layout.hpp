// SPDX-License-Identifier: GPL-3.0-or-later
/// musl's malloc as it lies in memory on x86_64 and arm64: src/malloc/mallocng/meta.h, which is the
/// same file in musl 1.2.1 to 1.2.5.
///
/// Blocks are in the slots of groups: 1 to 32 slots of one size behind a header of 16 bytes. A
/// group is a mapping of its own, or lies in a slot of a larger group (it is nested), or in what
/// was left of a module's pages (it was donated, and never goes). What there is to know of a group
/// is in its meta, which lies in a page of metas, far from the blocks:
///
///     context -> page of metas -> ... -> page of metas
///                  meta   <->   group: header | slot 0 | slot 1 | ...
///
/// A slot has four bytes before it, which are the last ones of what comes before. In them, or in
/// those before the block, if that begins later in the slot, is the block's place.
#pragma once

#include <array>
#include <cstdint>

namespace memleax::mallocng {

inline constexpr std::uint64_t kUnit = 16;    ///< UNIT: of slots, of a group's header
inline constexpr std::uint64_t kInBand = 4;   ///< IB: bytes of a slot that belong to the next one
inline constexpr std::uint64_t kArea = 4096;  ///< a page of metas, and the unit of maplen
inline constexpr std::uint64_t kClasses = 48; ///< sizes of slots
inline constexpr std::uint64_t kMappedClass = 63; ///< a block that is a mapping of its own

/// size_classes[], in units. The table stands so in the file of whatever has this malloc.
inline constexpr std::array<std::uint16_t, kClasses> kSizes{
    1,   2,   3,   4,    5,    6,    7,    8,    9,    10,   12,   15,   18,   20,   25,   31,
    36,  42,  50,  63,   72,   84,   102,  127,  146,  170,  204,  255,  292,  340,  409,  511,
    584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191};

/// struct malloc_context, with PAGESIZE a constant.
namespace context {
inline constexpr std::uint64_t kSecret = 0;
inline constexpr std::uint64_t kInitDone = 8;   ///< int, 0 or 1
inline constexpr std::uint64_t kFreeMetas = 16; ///< a ring
inline constexpr std::uint64_t kNextMeta = 24;  ///< avail_meta: in the last page
inline constexpr std::uint64_t kMetasLeft = 32; ///< in that page
inline constexpr std::uint64_t kAreaShift = 48; ///< meta_alloc_shift
inline constexpr std::uint64_t kFirstArea = 56;
inline constexpr std::uint64_t kLastArea = 64;
inline constexpr std::uint64_t kActive = 80; ///< of each class, a ring of groups with free slots
inline constexpr std::uint64_t kUsage = 464; ///< of each class, the slots of its groups
inline constexpr std::uint64_t kBrk = 920;   ///< ~0: brk(2) is no use
inline constexpr std::uint64_t kBytes = 928;
} // namespace context

/// struct meta_area
namespace area {
inline constexpr std::uint64_t kCheck = 0; ///< the context's secret
inline constexpr std::uint64_t kNext = 8;
inline constexpr std::uint64_t kSlots = 16; ///< int
inline constexpr std::uint64_t kMetas = 24;
} // namespace area

/// struct meta, as it lies there.
struct Meta {
    std::uint64_t previous;
    std::uint64_t next;
    std::uint64_t group;
    std::uint32_t available; ///< avail_mask: slots that may be given out
    std::uint32_t freed;     ///< freed_mask
    std::uint64_t bits;

    [[nodiscard]] unsigned last_slot() const { return bits & 31; }
    [[nodiscard]] bool is_freeable() const { return (bits >> 5 & 1) != 0; }
    [[nodiscard]] unsigned size_class() const { return bits >> 6 & 63; }
    [[nodiscard]] std::uint64_t mapped_bytes() const { return (bits >> 12) * kArea; }
    [[nodiscard]] std::uint32_t all_slots() const {
        return static_cast<std::uint32_t>((2ULL << last_slot()) - 1);
    }
    /// Bytes from a slot to the next one. The class must be a possible one.
    [[nodiscard]] std::uint64_t stride() const {
        return last_slot() == 0 && mapped_bytes() != 0 ? mapped_bytes() - kUnit
                                                       : kUnit * kSizes.at(size_class());
    }
};
inline constexpr std::uint64_t kMetaBytes = 40;
static_assert(sizeof(Meta) == kMetaBytes);
inline constexpr std::uint64_t kMetasOfArea = (kArea - area::kMetas) / kMetaBytes;

/// struct group: its meta's address, and active_idx in the lowest bits of the next byte.
namespace group {
inline constexpr std::uint64_t kMeta = 0;
inline constexpr std::uint64_t kActiveSlot = 8;
} // namespace group

/// The word of four bytes before a slot, or before a block, from the lowest byte on: 0 (1: the
/// offset is in the word before that one); the slot's number, and above that (3 bits) how many
/// bytes at the slot's end are not the block's; the offset from slot 0 in units (two bytes).
struct InBand {
    std::uint32_t word = 0;

    static constexpr std::uint32_t kFar = 1;
    static constexpr std::uint32_t kSeveral = 5; ///< the number is in the slot's last four bytes
    static constexpr std::uint32_t kNested = 6;  ///< a group is in the slot
    static constexpr std::uint32_t kLater =
        7; ///< the block begins later; so many units, says offset
    [[nodiscard]] constexpr std::uint32_t kind() const { return word & 0xff; }
    [[nodiscard]] constexpr std::uint32_t slot() const { return word >> 8 & 31; }
    [[nodiscard]] constexpr std::uint32_t reserved() const { return word >> 13 & 7; }
    [[nodiscard]] constexpr std::uint32_t offset() const { return word >> 16; }
};

} // namespace memleax::mallocng
