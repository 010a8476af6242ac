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

struct DynamicSymbols {
    Elf_Data* symbols = nullptr; ///< for gelf_getsym; belongs to the Elf
    std::size_t count = 0;
    std::string_view names; ///< DT_STRTAB; belongs to the Elf

    /// The name at this offset; "" if it is outside the table.
    [[nodiscard]] const char* name(std::size_t offset) const;
};

/// Nothing if there is no PT_DYNAMIC, or if what it says does not fit the file.
std::optional<DynamicSymbols> find_dynamic_symbols(Elf* elf,
                                                   const std::vector<ElfSegment>& segments);

} // namespace memleax
