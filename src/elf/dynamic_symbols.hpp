// SPDX-License-Identifier: GPL-3.0-or-later
/// The dynamic symbol table as the dynamic linker finds it, by PT_DYNAMIC: files whose section
/// headers are gone (sstrip, packers, a cut tail) still have it.
#pragma once

#include <optional>
#include <vector>

#include <gelf.h>

#include "memleax/elf/elf_image.hpp"
#include "memleax/elf/symbol_table.hpp"

namespace memleax {

/// Nothing if there is no PT_DYNAMIC, or if what it says does not fit the file.
std::optional<SymbolEntries> find_dynamic_symbols(Elf* elf,
                                                  const std::vector<ElfSegment>& segments);

} // namespace memleax
