// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/symbol_table.hpp"

#include "memleax/elf/elf_file.hpp"

namespace memleax {

StringTable::StringTable(const Elf_Data* table) {
    if (table != nullptr && table->d_buf != nullptr) {
        const std::string_view text(static_cast<const char*>(table->d_buf), table->d_size);
        names_ = text.substr(0, text.rfind('\0') + 1); // npos + 1 == 0
    }
}

std::string_view without_version(std::string_view name) {
    return name.substr(0, name.find('@'));
}

std::optional<SymbolEntries> find_symbol_section(Elf* elf, GElf_Word type) {
    Elf_Scn* section = nullptr;
    while ((section = elf_nextscn(elf, section)) != nullptr) {
        GElf_Shdr header;
        Elf_Data* data = nullptr;
        if (gelf_getshdr(section, &header) == nullptr || header.sh_type != type ||
            (data = read_section(section)) == nullptr) {
            continue;
        }
        return SymbolEntries{data, data->d_size / gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT),
                             StringTable(read_section(elf_getscn(elf, header.sh_link)))};
    }
    return std::nullopt;
}

void for_each_symbol(const SymbolEntries& entries, SymbolKind kind,
                     const std::function<void(const ElfSymbol&)>& each, const NameFilter* filter) {
    for (std::size_t i = 0; i < entries.count; ++i) {
        GElf_Sym symbol;
        if (gelf_getsym(entries.symbols, static_cast<int>(i), &symbol) == nullptr) {
            break;
        }
        const auto type = GELF_ST_TYPE(symbol.st_info);
        const bool is_wanted = kind == SymbolKind::function
                                   ? type == STT_FUNC || type == STT_GNU_IFUNC
                                   : type == STT_OBJECT;
        if (!is_wanted || symbol.st_shndx == SHN_UNDEF) {
            continue;
        }
        const char* name = entries.names.name(symbol.st_name);
        if (*name != '\0' && (filter == nullptr || filter->may_be_in(name))) {
            each({without_version(name), ElfAddr(symbol.st_value), symbol.st_size,
                  type == STT_GNU_IFUNC});
        }
    }
}

} // namespace memleax
