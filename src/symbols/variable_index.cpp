// SPDX-License-Identifier: GPL-3.0-or-later
#include "variable_index.hpp"

#include <algorithm>

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "memleax/elf/symbol_table.hpp"

namespace memleax {

VariableIndex::VariableIndex(Dwfl_Module* module) {
    const int count = dwfl_module_getsymtab(module);
    const char* file = nullptr; // whose local symbols follow (gabi, "Symbol Table", STT_FILE)
    for (int i = 0; i < count; ++i) {
        GElf_Sym sym;
        GElf_Addr address = 0;
        GElf_Word section = 0;
        const char* name =
            dwfl_module_getsym_info(module, i, &sym, &address, &section, nullptr, nullptr);
        if (name == nullptr) {
            continue;
        }
        const auto type = GELF_ST_TYPE(sym.st_info);
        const bool is_local = GELF_ST_BIND(sym.st_info) == STB_LOCAL;
        if (type == STT_FILE) {
            file = *name != '\0' ? name : nullptr;
        } else if (type == STT_OBJECT && *name != '\0' && sym.st_size != 0 &&
                   section != SHN_UNDEF && section != SHN_ABS) {
            variables_.push_back({address, address + sym.st_size, name, is_local ? file : nullptr});
        }
    }
    std::stable_sort(variables_.begin(), variables_.end(), [](const auto& a, const auto& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    variables_.shrink_to_fit();
}

std::optional<VariableIndex::Found> VariableIndex::find(ElfAddr address) const {
    const auto after = std::upper_bound(
        variables_.begin(), variables_.end(), address.value(),
        [](std::uint64_t at, const Variable& variable) { return at < variable.begin; });
    // One with another name at its begin, or with a part that has a name of its own, is near.
    constexpr std::ptrdiff_t kMostNested = 8;
    auto at = after;
    for (std::ptrdiff_t i = 0; i < kMostNested && at != variables_.begin(); ++i) {
        --at;
        if (address.value() < at->end) {
            std::string_view file = at->file != nullptr ? at->file : "";
            file.remove_prefix(file.rfind('/') + 1); // npos + 1 == 0
            return Found{without_version(at->name), file, ElfAddr(at->begin)};
        }
    }
    return std::nullopt;
}

} // namespace memleax
