// SPDX-License-Identifier: GPL-3.0-or-later
#include "unit_functions.hpp"

#include <algorithm>

#include <dwarf.h>

namespace memleax {

namespace {

/// Deeper than any compiler nests; the file may be broken.
constexpr int kMaxDepth = 200;

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

/// The child that has code at this address. Functions within the function were found before.
bool child_at(Dwarf_Die* parent, Dwarf_Addr address, Dwarf_Die* child) {
    if (dwarf_child(parent, child) != 0) {
        return false;
    }
    do {
        const int tag = dwarf_tag(child);
        if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine ||
             tag == DW_TAG_try_block || tag == DW_TAG_catch_block) &&
            dwarf_haspc(child, address) == 1) {
            return true;
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
            Dwarf_Addr base = 0;
            Dwarf_Addr begin = 0;
            Dwarf_Addr end = 0;
            std::ptrdiff_t offset = 0;
            while ((offset = dwarf_ranges(&die, offset, &base, &begin, &end)) > 0) {
                functions_.push_back({begin, end, die});
            }
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
    while (scopes.size() < kMaxDepth && child_at(&scopes.back(), address, &child)) {
        scopes.push_back(child);
    }
    std::reverse(scopes.begin(), scopes.end());
    return scopes;
}

} // namespace memleax
