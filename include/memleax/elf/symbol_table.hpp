// SPDX-License-Identifier: GPL-3.0-or-later
/// The symbol table of a section, whichever file it is in.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include <gelf.h>

#include "memleax/elf/elf_image.hpp"

namespace memleax {

enum class SymbolKind { function, variable };

/// A string table, which belongs to the Elf. Not asked through elf_strptr(), which for every name
/// looks for a NUL from the end of the table on: a table without one makes that slow.
class StringTable {
  public:
    StringTable() = default;
    /// Null has no names.
    explicit StringTable(const Elf_Data* table);
    /// "" if the offset is outside the table, or the name runs out of it.
    [[nodiscard]] const char* name(std::size_t offset) const {
        return offset < names_.size() ? names_.data() + offset : "";
    }

  private:
    std::string_view names_; ///< ends with a NUL
};

/// Symbols as gelf_getsym has them, with their names.
struct SymbolEntries {
    Elf_Data* symbols = nullptr; ///< belongs to the Elf
    std::size_t count = 0;
    StringTable names;
};

/// A definition's name may carry its version in .symtab ("memalign@@GLIBC_2.2.5",
/// "fopen@GLIBC_2.0").
std::string_view without_version(std::string_view name);

/// The first section of this type (SHT_SYMTAB, SHT_DYNSYM), if there is one: more there must not be
/// (gabi, "Sections"), and a file that is all headers of the same large table would take for ever.
std::optional<SymbolEntries> find_symbol_section(Elf* elf, GElf_Word type);

/// Calls `each` for every defined symbol of this kind that `filter`, if there is one, may know.
void for_each_symbol(const SymbolEntries& entries, SymbolKind kind,
                     const std::function<void(const ElfSymbol&)>& each, const NameFilter* filter);

} // namespace memleax
