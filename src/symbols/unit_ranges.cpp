// SPDX-License-Identifier: GPL-3.0-or-later
#include "unit_ranges.hpp"

#include <algorithm>
#include <iterator>

#include <absl/container/flat_hash_set.h>

namespace memleax {

namespace {

constexpr std::size_t kMostRanges = std::size_t{1} << 24; // a large program has 10^6

/// The units in .debug_aranges, by the offsets of their DIEs.
absl::flat_hash_set<Dwarf_Off> units_in_table(Dwarf* dwarf) {
    absl::flat_hash_set<Dwarf_Off> units;
    Dwarf_Aranges* table = nullptr; // belongs to `dwarf`, which has read it already
    std::size_t count = 0;
    if (dwarf_getaranges(dwarf, &table, &count) != 0) {
        return units;
    }
    for (std::size_t i = 0; i < count; ++i) {
        Dwarf_Addr begin = 0;
        Dwarf_Word size = 0;
        Dwarf_Off unit = 0;
        if (dwarf_getarangeinfo(dwarf_onearange(table, i), &begin, &size, &unit) == 0) {
            units.insert(unit);
        }
    }
    return units;
}

} // namespace

UnitRanges::UnitRanges(Dwarf* dwarf) {
    const auto in_table = units_in_table(dwarf);
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
        if (in_table.contains(dwarf_dieoffset(&die))) {
            continue;
        }
        Dwarf_Addr base = 0;
        Dwarf_Addr begin = 0;
        Dwarf_Addr end = 0;
        std::ptrdiff_t offset = 0;
        // Many units can share one long list: see UnitFunctions.
        while (ranges_.size() < kMostRanges &&
               (offset = dwarf_ranges(&die, offset, &base, &begin, &end)) > 0) {
            ranges_.push_back({begin, end, die});
        }
    }
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

std::optional<Dwarf_Die> UnitRanges::find(Dwarf_Addr address) const {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), address,
                         [](Dwarf_Addr a, const Range& range) { return a < range.begin; });
    if (after == ranges_.begin() || std::prev(after)->end <= address) {
        return std::nullopt;
    }
    return std::prev(after)->unit;
}

} // namespace memleax
