// SPDX-License-Identifier: GPL-3.0-or-later
// The file of option -d: looked at before anything is attached to.
#include <string_view>

#include <fmt/format.h>

#include "elf_file.hpp"
#include "memleax/symbolizer.hpp"

namespace memleax {

namespace {

/// Has it DWARF, or at least the names of functions, with contents?
bool has_debug_information(Elf* elf) {
    return has_section(elf, [](std::string_view name, const GElf_Shdr& header, Elf_Scn* section) {
        return (header.sh_type == SHT_SYMTAB || name == ".debug_info" || name == ".zdebug_info") &&
               elf_rawdata(section, nullptr) != nullptr;
    });
}

} // namespace

Result<void> Symbolizer::check_debug_file(const std::string& path) {
    const ElfFile file(path);
    if (file.errnum() != 0) {
        return Error(fmt::format("cannot open {}", path), file.errnum());
    }
    if (file.get() == nullptr || elf_kind(file.get()) != ELF_K_ELF) {
        return Error(fmt::format("{}: not an ELF file", path));
    }
    if (!has_debug_information(file.get())) {
        return Error(fmt::format("{}: has no debug information and no symbol table", path))
            .with_advice("build with -g, or install the package with the debug symbols");
    }
    return {};
}

} // namespace memleax
