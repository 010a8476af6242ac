// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "debug_image.hpp"
#include "memleax/elf/elf_file.hpp"
#include "memleax/symbols/module_probes.hpp"

namespace memleax {

namespace {

bool has_section_named(Elf* elf, std::string_view wanted) {
    return elf != nullptr && has_section(elf, [wanted](std::string_view name, const GElf_Shdr&,
                                                       Elf_Scn*) { return name == wanted; });
}

/// What they export to the modules that are written for them, or to who embeds them.
constexpr std::array<std::pair<std::string_view, LanguageRuntime>, 6> kRuntimes{{
    {"Py_InitializeEx", LanguageRuntime::python},
    {"node_module_register", LanguageRuntime::v8},
    {"_emalloc", LanguageRuntime::php},
    {"ruby_xmalloc", LanguageRuntime::ruby},
    {"JNI_CreateJavaVM", LanguageRuntime::java},
    {"ChromeMain", LanguageRuntime::chromium},
}};

/// Go's linker leaves its own build-id in each program.
std::optional<LanguageRuntime> find_runtime(Dwfl_Module* module, Elf* elf, int symbols) {
    if (has_section_named(elf, ".note.go.buildid")) {
        return LanguageRuntime::go;
    }
    for (int i = 1; i < symbols; ++i) {
        GElf_Sym symbol;
        GElf_Addr address = 0;
        const char* name =
            dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
        if (name == nullptr || symbol.st_shndx == SHN_UNDEF) {
            continue;
        }
        const auto* const known =
            std::find_if(kRuntimes.begin(), kRuntimes.end(),
                         [name](const auto& each) { return each.first == name; });
        if (known != kRuntimes.end()) {
            return known->second;
        }
    }
    return std::nullopt;
}

/// Why the last attempt has found none, if there is more to say: "" if none is there, as in most
/// modules. libdwfl has no public number for that.
std::string why_no_dwarf() {
    const std::string why = dwfl_errmsg(-1);
    return why == "No DWARF information found" ? "" : why;
}

} // namespace

ModuleDescription DebugImage::describe() {
    // Looks for a separate file if there is none in this one; its name is known only afterwards.
    Dwarf_Addr bias = 0;
    Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
    const std::string no_dwarf = dwarf == nullptr ? why_no_dwarf() : "";
    const int symbols = dwfl_module_getsymtab(module_);
    const char* main_file = nullptr;
    const char* debug_file = nullptr;
    dwfl_module_info(module_, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
    Elf* elf = dwfl_module_getelf(module_, &bias);
    const bool own_symtab = has_section_named(elf, ".symtab");

    std::string text;
    if (symbols <= 1) { // entry 0 is none
        text = "no symbols";
    } else if (own_symtab || debug_file == nullptr) {
        text = fmt::format("{} symbols ({})", symbols - 1, own_symtab ? ".symtab" : ".dynsym");
    } else {
        text = fmt::format("{} symbols ({})", symbols - 1, debug_file);
    }
    if (dwarf == nullptr) {
        text += no_dwarf.empty() ? ", no lines" : fmt::format(", no lines ({})", no_dwarf);
    } else {
        text += fmt::format(", lines ({})", debug_file != nullptr ? debug_file : ".debug_line");
    }
    const bool eh_frame = has_section_named(elf, ".eh_frame");
    const bool debug_frame = has_section_named(elf, ".debug_frame");
    text += eh_frame      ? ", unwinding by .eh_frame"
            : debug_frame ? ", unwinding by .debug_frame"
                          : ", no unwind tables: frame pointers";
    if (const std::size_t probes = probes_of(*image_).size(); probes != 0) {
        text += fmt::format(", {} probe{}", probes, probes == 1 ? "" : "s");
    }
    return {std::move(text), find_runtime(module_, elf, symbols)};
}

} // namespace memleax
