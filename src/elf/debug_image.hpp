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

#include "memleax/elf_image.hpp"
#include "symbol_index.hpp"
#include "unit_functions.hpp"

namespace memleax {

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
    /// `path` is where a .gnu_debuglink is looked for from. `debug_file`, if not "", replaces what
    /// there is of separate or own debug information. Null if the file cannot be opened again.
    static std::unique_ptr<DebugImage> open(std::shared_ptr<const ElfImage> image,
                                            const std::string& path, const std::string& debug_file);

    /// The symbol table; made when it is first asked for.
    const SymbolIndex& symbols();
    /// The compilation unit that has code at this address, if there is debug information.
    std::optional<UnitAddress> find_unit(ElfAddr address);

    /// Where symbols, lines and unwind tables come from, in a line for people.
    std::string describe();

  private:
    struct EndSession {
        void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
    };
    struct UnitRange {
        Dwarf_Addr begin = 0;
        Dwarf_Addr end = 0;
        Dwarf_Die unit;
    };

    DebugImage(std::shared_ptr<const ElfImage> image, std::string debug_file)
        : image_(std::move(image)), debug_file_(std::move(debug_file)) {}
    bool report(int fd, const std::string& path);
    bool used_debug_file();
    std::optional<Dwarf_Die> find_unit_by_range(Dwarf* dwarf, Dwarf_Addr address);
    const UnitFunctions& functions_of(Dwarf_Die unit);

    static int find_debug_file(Dwfl_Module* module, void** userdata, const char* name,
                               Dwarf_Addr base, const char* file_name, const char* debuglink,
                               GElf_Word crc, char** found);

    std::shared_ptr<const ElfImage> image_; ///< keeps its address from being another image's
    std::string debug_file_;
    std::unique_ptr<Dwfl, EndSession> session_;
    Dwfl_Module* module_ = nullptr; ///< the session's only one
    std::optional<SymbolIndex> symbols_;
    std::optional<std::vector<UnitRange>> units_; ///< by begin; made when .debug_aranges fails us
    absl::flat_hash_map<void*, std::unique_ptr<UnitFunctions>>
        functions_; ///< by address of the DIE
};

} // namespace memleax
