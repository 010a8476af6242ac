// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/symbols/debug_symbols.hpp"

#include <cstring>
#include <optional>
#include <utility>

#include <elfutils/libdwelf.h>

#include "debug_file_search.hpp"
#include "memleax/elf/elf_file.hpp"
#include "memleax/elf/symbol_table.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMaxLink = 4096; // PATH_MAX

/// prelink(8) moves a library, but not the debug file that was made of it before.
bool has_addresses_of(const ElfImage& image, Elf* debug_file) {
    std::size_t count = 0;
    if (elf_getphdrnum(debug_file, &count) != 0) {
        return false;
    }
    auto own = image.segments().begin();
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(debug_file, static_cast<int>(i), &segment) == nullptr ||
            segment.p_type != PT_LOAD) {
            continue;
        }
        if (own == image.segments().end() || segment.p_vaddr != own->address.value() ||
            segment.p_memsz != own->memory_size) {
            return false;
        }
        ++own;
    }
    return own == image.segments().end();
}

struct SymbolsInFile {
    SymbolsInFile(std::unique_ptr<ElfFile> from, const SymbolEntries& of)
        : file(std::move(from)), entries(of) {}

    std::unique_ptr<ElfFile> file;
    SymbolEntries entries;
};

} // namespace

std::shared_ptr<const SymbolEntries> find_debug_symbols(const Module& module,
                                                        const DebugSources& sources,
                                                        const std::string& debug_file) {
    const ElfImage* const image = module.image.get();
    if (image == nullptr || image->descriptor() < 0 || // the vDSO
        !has_sane_sections(image->handle())) {
        return nullptr;
    }
    GElf_Word crc = 0; // not compared: the whole file would have to be read
    const char* link = dwelf_elf_gnu_debuglink(image->handle(), &crc);
    if (link != nullptr && strnlen(link, kMaxLink) == kMaxLink) {
        link = nullptr;
    }
    const DebugSources here{.folders = sources.folders, .debuginfod = nullptr};
    const auto found = DebugFileSearch(here, module.root.get())
                           .find({.build_id = image->build_id(),
                                  .link = link != nullptr ? link : "",
                                  .crc = std::nullopt,
                                  .named_in = module.path,
                                  .module = module.name},
                                 debug_file);
    if (!found) {
        return nullptr;
    }
    auto file = std::make_unique<ElfFile>(found->fd);
    const auto entries = has_addresses_of(*image, file->get())
                             ? find_symbol_section(file->get(), SHT_SYMTAB)
                             : std::nullopt;
    file->close_file(); // a process has hundreds of modules
    if (!entries) {
        return nullptr;
    }
    // The entries' data is the file's.
    auto found_symbols = std::make_shared<SymbolsInFile>(std::move(file), *entries);
    return {found_symbols, &found_symbols->entries};
}

} // namespace memleax
