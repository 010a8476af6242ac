// SPDX-License-Identifier: GPL-3.0-or-later
/// The functions of one compilation unit by address. (dwarf_getscopes walks through the unit anew
/// for every question: 5 ms in a unit that includes large headers.)
#pragma once

#include <vector>

#include <elfutils/libdw.h>

namespace memleax {

/// Made with one walk through the unit; the Dwarf that it is of must outlive it.
class UnitFunctions {
  public:
    explicit UnitFunctions(Dwarf_Die unit);

    /// The function whose code is at this address and what contains the address within it: blocks
    /// and inlined functions. Innermost first, the function (DW_TAG_subprogram) last; empty if
    /// none.
    [[nodiscard]] std::vector<Dwarf_Die> scopes_at(Dwarf_Addr address) const;

  private:
    struct Function {
        Dwarf_Addr begin = 0;
        Dwarf_Addr end = 0;
        Dwarf_Die die;
    };
    void collect(Dwarf_Die parent, int depth);

    std::vector<Function> functions_; ///< one for each of their ranges, by begin
};

} // namespace memleax
