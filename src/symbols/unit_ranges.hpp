// SPDX-License-Identifier: GPL-3.0-or-later
/// The code of compilation units that are not in .debug_aranges: clang, rustc and go write no such
/// table, and a program may have units of several compilers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <elfutils/libdw.h>

namespace memleax {

class UnitRanges {
  public:
    /// Units that are in the table are not read: gcc's are all there, and a large program has
    /// thousands. Where the table cannot be read it has no units.
    explicit UnitRanges(Dwarf* dwarf);
    [[nodiscard]] std::optional<Dwarf_Die> find(Dwarf_Addr address) const;
    [[nodiscard]] std::size_t size() const { return ranges_.size(); }

  private:
    struct Range {
        Dwarf_Addr begin = 0;
        Dwarf_Addr end = 0;
        Dwarf_Die unit;
    };
    std::vector<Range> ranges_; ///< by begin
};

} // namespace memleax
