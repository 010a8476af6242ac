// SPDX-License-Identifier: GPL-3.0-or-later
#include "unit_functions.hpp"

#include <algorithm>

#include <dwarf.h>

namespace memleax {

namespace {

/// Deeper than any compiler nests; the file may be broken.
constexpr int kMaxDepth = 200;
// Many DIEs can share one long list of ranges, so that a small file has more of them than memory,
// or a life, is enough for. A unit of real code has some 10^4.
constexpr std::size_t kMaxRanges = std::size_t{1} << 20;

bool may_contain_functions(int tag) {
    switch (tag) {
    case DW_TAG_subprogram: // classes local to it, functions within functions
    case DW_TAG_lexical_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        return true;
    default:
        return false;
    }
}

/// Calls `each` with the ranges of the DIE until it says that it is enough; takes what it looks at
/// from `*left`, and stops at 0.
template <class Each> void for_each_range(Dwarf_Die* die, std::size_t* left, Each each) {
    Dwarf_Addr base = 0;
    Dwarf_Addr begin = 0;
    Dwarf_Addr end = 0;
    std::ptrdiff_t offset = 0;
    while (*left > 0 && (offset = dwarf_ranges(die, offset, &base, &begin, &end)) > 0) {
        --*left;
        if (each(begin, end)) {
            return;
        }
    }
}

/// The child that has code at this address. Functions within the function were found before.
bool child_at(Dwarf_Die* parent, Dwarf_Addr address, Dwarf_Die* child, std::size_t* left) {
    if (dwarf_child(parent, child) != 0) {
        return false;
    }
    do {
        const int tag = dwarf_tag(child);
        if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine ||
            tag == DW_TAG_try_block || tag == DW_TAG_catch_block) {
            bool found = false;
            for_each_range(child, left, [&](Dwarf_Addr begin, Dwarf_Addr end) {
                return found = address >= begin && address < end;
            });
            if (found) {
                return true;
            }
        }
    } while (dwarf_siblingof(child, child) == 0);
    return false;
}

} // namespace

UnitFunctions::UnitFunctions(Dwarf_Die unit) {
    collect(unit, 0);
    std::stable_sort(functions_.begin(), functions_.end(),
                     [](const Function& a, const Function& b) { return a.begin < b.begin; });
}

void UnitFunctions::collect(Dwarf_Die parent, int depth) {
    Dwarf_Die die;
    if (depth > kMaxDepth || dwarf_child(&parent, &die) != 0) {
        return;
    }
    do {
        const int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram) {
            std::size_t left = kMaxRanges - functions_.size();
            for_each_range(&die, &left, [&](Dwarf_Addr begin, Dwarf_Addr end) {
                functions_.push_back({begin, end, die});
                return false;
            });
        }
        if (may_contain_functions(tag)) {
            collect(die, depth + 1);
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

std::vector<Dwarf_Die> UnitFunctions::scopes_at(Dwarf_Addr address) const {
    std::vector<Dwarf_Die> scopes;
    const auto after =
        std::upper_bound(functions_.begin(), functions_.end(), address,
                         [](Dwarf_Addr a, const Function& f) { return a < f.begin; });
    if (after == functions_.begin() || std::prev(after)->end <= address) {
        return scopes;
    }
    scopes.push_back(std::prev(after)->die);
    Dwarf_Die child;
    std::size_t left = kMaxRanges;
    while (scopes.size() < kMaxDepth && child_at(&scopes.back(), address, &child, &left)) {
        scopes.push_back(child);
    }
    std::reverse(scopes.begin(), scopes.end());
    return scopes;
}

} // namespace memleax
