// SPDX-License-Identifier: GPL-3.0-or-later
/// The symbol table that strip(1) has taken out of a file, from its separate debug file.
#pragma once

#include <memory>
#include <string>

#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/symbols/debug_sources.hpp"

namespace memleax {

struct SymbolEntries;

/// Looks for the file of a module whose image has no .symtab: `debug_file`, which may be "", then
/// in `sources`' folders and /usr/lib/debug. It has to have the image's build-id, as there will be
/// breakpoints at these symbols. Null if there is none. Neither are checksums taken nor debuginfod
/// asked: a thread of the target may be waiting for us. The entries hold on to their file, and
/// belong to the thread of the image.
std::shared_ptr<const SymbolEntries> find_debug_symbols(const Module& module,
                                                        const DebugSources& sources,
                                                        const std::string& debug_file);

} // namespace memleax
