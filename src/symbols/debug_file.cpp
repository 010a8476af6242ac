// SPDX-License-Identifier: GPL-3.0-or-later
// The file of option -d: looked at before anything is attached to.
#include <string_view>

#include <fmt/format.h>

#include "memleax/base/regular_file.hpp"
#include "memleax/elf/elf_file.hpp"
#include "memleax/symbols/symbolizer.hpp"

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
    auto fd = open_regular_file(path);
    if (!fd) {
        return std::move(fd).error();
    }
    const ElfFile file(*fd);
    if (file.get() == nullptr || elf_kind(file.get()) != ELF_K_ELF) {
        return Error(fmt::format("{}: not an ELF file", path));
    }
    if (!has_debug_information(file.get())) {
        return Error(fmt::format("{}: has no debug information and no symbol table", path))
            .with_advice("build with -g, or install the package with the debug symbols");
    }
    if (!has_sane_sections(file.get())) {
        return Error(fmt::format("{}: its compressed sections do not fit into memory", path));
    }
    return {};
}

} // namespace memleax
