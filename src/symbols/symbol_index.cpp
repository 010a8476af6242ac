// SPDX-License-Identifier: GPL-3.0-or-later
#include "symbol_index.hpp"

#include <algorithm>
#include <tuple>

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "memleax/elf/symbol_table.hpp"

namespace memleax {

namespace {

/// Where the symbol's section ends, in the terms of libdwfl's addresses; 0 if that is not known.
std::uint64_t section_end(Elf* elf, GElf_Word index, GElf_Addr bias) {
    GElf_Shdr header;
    Elf_Scn* section = elf_getscn(elf, index);
    if (section == nullptr || gelf_getshdr(section, &header) == nullptr) {
        return 0;
    }
    return header.sh_addr + header.sh_size + bias;
}

} // namespace

SymbolIndex::SymbolIndex(Dwfl_Module* module) {
    const int count = dwfl_module_getsymtab(module);
    for (int i = 0; i < count; ++i) {
        GElf_Sym sym;
        GElf_Addr address = 0;
        GElf_Word section = 0;
        Elf* elf = nullptr;
        Dwarf_Addr bias = 0;
        const char* name =
            dwfl_module_getsym_info(module, i, &sym, &address, &section, &elf, &bias);
        if (name == nullptr || *name == '\0' || section == SHN_UNDEF || section == SHN_ABS) {
            continue;
        }
        const auto type = GELF_ST_TYPE(sym.st_info);
        const bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
        // Hand-written assembly often has labels without a type. "$x" and "$d" are arm64's mapping
        // symbols (aaelf64, 5.5.4), ".L" names are the assembler's own.
        if (!function && (type != STT_NOTYPE || *name == '$' || *name == '.')) {
            continue;
        }
        const std::uint64_t end =
            sym.st_size != 0 ? address + sym.st_size : section_end(elf, section, bias);
        if (end > address) {
            symbols_.push_back({address, end, name, sym.st_size != 0, function,
                                GELF_ST_BIND(sym.st_info) == STB_LOCAL});
        }
    }
    std::stable_sort(symbols_.begin(), symbols_.end(),
                     [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
    symbols_.shrink_to_fit();
    reach_.reserve(symbols_.size());
    std::uint64_t reach = 0;
    for (const Symbol& symbol : symbols_) {
        reach = std::max(reach, symbol.sized ? symbol.end : 0);
        reach_.push_back(reach);
    }
}

/// malloc before __libc_malloc and tc_malloc, a constructor's C1 name before its C2 name, and the
/// names that a library exports before those it has for itself.
bool SymbolIndex::is_better_name(const Symbol& a, const Symbol& b) {
    const auto rank = [](const Symbol& symbol) {
        const std::string_view name = without_version(symbol.name);
        const bool mangled = name.starts_with("_Z") || name.starts_with("_R");
        const std::size_t underscores =
            mangled ? 0 : std::min(name.find_first_not_of('_'), name.size());
        return std::tuple(!symbol.function, symbol.local, underscores, name.size(), name);
    };
    return rank(a) < rank(b);
}

/// The best of the accepted symbols that begin where symbol `last`, the last one there, does.
template <class Accept>
std::optional<SymbolIndex::Found> SymbolIndex::best(std::size_t last, Accept accept) const {
    const Symbol* chosen = nullptr;
    for (std::size_t i = last + 1; i-- > 0 && symbols_[i].begin == symbols_[last].begin;) {
        const Symbol& symbol = symbols_[i];
        if (accept(symbol) && (chosen == nullptr || is_better_name(symbol, *chosen))) {
            chosen = &symbol;
        }
    }
    if (chosen == nullptr) {
        return std::nullopt;
    }
    return Found{without_version(chosen->name), ElfAddr(chosen->begin)};
}

std::optional<SymbolIndex::Found> SymbolIndex::find(ElfAddr address) const {
    const std::uint64_t pc = address.value();
    const auto after =
        std::upper_bound(symbols_.begin(), symbols_.end(), pc,
                         [](std::uint64_t a, const Symbol& symbol) { return a < symbol.begin; });
    if (after == symbols_.begin()) {
        return std::nullopt;
    }
    const auto nearest = static_cast<std::size_t>(after - symbols_.begin()) - 1;
    for (std::size_t i = nearest + 1; i-- > 0 && reach_[i] > pc;) {
        if (symbols_[i].sized && symbols_[i].end > pc) {
            return best(i, [pc](const Symbol& symbol) { return symbol.sized && symbol.end > pc; });
        }
    }
    return best(nearest, [pc](const Symbol& symbol) { return !symbol.sized && symbol.end > pc; });
}

} // namespace memleax
