// SPDX-License-Identifier: GPL-3.0-or-later
/// The symbols and debug information of one ELF file: a libdwfl session for it alone, so that it
/// lives as long as we like, and that knows nothing of where in memory the file is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <elfutils/libdwfl.h>

#include "debug_file_search.hpp"
#include "dwo_package.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/symbols/module_description.hpp"
#include "symbol_index.hpp"
#include "unit_functions.hpp"
#include "unit_ranges.hpp"
#include "variable_index.hpp"

namespace memleax {

/// The image's bytes as a file that has nothing to do with the image's own libelf handle.
int open_again(const ElfImage& image);

/// A compilation unit, and the address that was looked for as its DWARF counts.
struct UnitAddress {
    Dwarf_Die unit;
    const UnitFunctions* functions; ///< belongs to the DebugImage
    Dwarf_Addr address = 0;
};

/// Belongs to one thread, which need not be that of the ElfImage: the descriptor is its own.
/// Everything is looked up by ElfAddr, so all loads of a file share one session.
class DebugImage {
  public:
    /// Of a module that has an image. `debug_file`, if not "", replaces what there is of separate
    /// or own debug information. `sources` must outlive it. Null if the file cannot be opened
    /// again.
    static std::unique_ptr<DebugImage> open(const Module& module, const std::string& debug_file,
                                            const DebugSources& sources);

    /// The symbol table; made when it is first asked for.
    const SymbolIndex& symbols();
    /// Likewise.
    const VariableIndex& variables();
    /// The compilation unit that has code at this address, if there is debug information.
    std::optional<UnitAddress> find_unit(ElfAddr address);

    ModuleDescription describe();

  private:
    struct EndSession {
        void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
    };

    DebugImage(const Module& module, std::string debug_file, const DebugSources& sources)
        : image_(module.image), root_(module.root), path_(module.path), name_(module.name),
          debug_file_(std::move(debug_file)), sources_(sources) {}
    bool report(int fd, const std::string& path);
    bool used_debug_file();
    std::optional<Dwarf_Die> find_unit_by_range(Dwarf* dwarf, Dwarf_Addr address);
    const UnitFunctions& functions_of(Dwarf_Die unit);
    const DwoPackage* find_package();

    static int find_debug_file(Dwfl_Module* module, void** userdata, const char* name,
                               Dwarf_Addr base, const char* file_name, const char* debuglink,
                               GElf_Word crc, char** found);

    /// What libdwfl asks for: the file with the debug information, or the one that dwz has made.
    [[nodiscard]] std::optional<FoundDebugFile> find_separate(const char* link, GElf_Word crc);

    std::shared_ptr<const ElfImage> image_; ///< keeps its address from being another image's
    std::shared_ptr<const TargetRoot> root_;
    std::string path_; ///< the module's
    std::string name_;
    std::string debug_file_;
    const DebugSources& sources_;
    std::string separate_path_;           ///< of the debug file that is used; "" if none
    std::optional<AltLink> separate_alt_; ///< which one it names
    std::unique_ptr<DwoPackage> package_; ///< null: none, or not looked for yet
    bool looked_for_package_ = false;
    std::unique_ptr<Dwfl, EndSession> session_;
    Dwfl_Module* module_ = nullptr; ///< the session's only one
    std::optional<SymbolIndex> symbols_;
    std::optional<VariableIndex> variables_;
    std::optional<UnitRanges> units_; ///< made when .debug_aranges fails us
    absl::flat_hash_map<void*, std::unique_ptr<UnitFunctions>>
        functions_; ///< by address of the DIE
};

} // namespace memleax
