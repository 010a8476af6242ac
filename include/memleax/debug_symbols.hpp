// SPDX-License-Identifier: GPL-3.0-or-later
/// The symbol table that strip(1) has taken out of a file, from its separate debug file.
#pragma once

#include <memory>
#include <string>

#include "memleax/debug_sources.hpp"
#include "memleax/elf_image.hpp"
#include "memleax/modules.hpp"

namespace memleax {

class ElfFile;
struct SymbolEntries;

/// Belongs to the thread of the image whose symbols they are.
class DebugSymbols {
  public:
    /// Looks for the file of a module whose image has no .symtab: `debug_file`, which may be "",
    /// then in `sources`' folders and /usr/lib/debug. It has to have the image's build-id, as there
    /// will be breakpoints at these symbols. Null if there is none. Neither are checksums taken nor
    /// debuginfod asked: a thread of the target may be waiting for us.
    static std::shared_ptr<const DebugSymbols>
    find(const Module& module, const DebugSources& sources, const std::string& debug_file);
    ~DebugSymbols();
    DebugSymbols(const DebugSymbols&) = delete;
    DebugSymbols& operator=(const DebugSymbols&) = delete;

    [[nodiscard]] const SymbolEntries& entries() const { return *entries_; }

  private:
    DebugSymbols(std::unique_ptr<ElfFile> file, const SymbolEntries& entries);

    std::unique_ptr<ElfFile> file_;
    std::unique_ptr<SymbolEntries> entries_;
};

} // namespace memleax
