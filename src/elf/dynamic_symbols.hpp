// SPDX-License-Identifier: GPL-3.0-or-later
/// The dynamic symbol table as the dynamic linker finds it, by PT_DYNAMIC: files whose section
/// headers are gone (sstrip, packers, a cut tail) still have it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <gelf.h>

#include "memleax/elf_image.hpp"

namespace memleax {

/// A string table, which belongs to the Elf. Not asked through elf_strptr(), which for every name
/// looks for a NUL from the end of the table on: a table without one makes that slow.
class NameTable {
  public:
    NameTable() = default;
    /// Null has no names.
    explicit NameTable(const Elf_Data* table);
    /// "" if the offset is outside the table, or the name runs out of it.
    [[nodiscard]] const char* name(std::size_t offset) const {
        return offset < names_.size() ? names_.data() + offset : "";
    }

  private:
    std::string_view names_; ///< ends with a NUL
};

struct DynamicSymbols {
    Elf_Data* symbols = nullptr; ///< for gelf_getsym; belongs to the Elf
    std::size_t count = 0;
    NameTable names; ///< DT_STRTAB
};

/// Nothing if there is no PT_DYNAMIC, or if what it says does not fit the file.
std::optional<DynamicSymbols> find_dynamic_symbols(Elf* elf,
                                                   const std::vector<ElfSegment>& segments);

} // namespace memleax
