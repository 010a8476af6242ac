// SPDX-License-Identifier: GPL-3.0-or-later
/// The function symbols of one module by address. (dwfl_module_addrinfo looks at every symbol for
/// every question, and does not know which of several names at one address people use.)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"

struct Dwfl_Module;

namespace memleax {

/// Names point into the Dwfl session, which must outlive the index.
class SymbolIndex {
  public:
    /// All symbols that libdwfl finds: .symtab of the file or of its debug file, .dynsym, and the
    /// compressed .gnu_debugdata of Fedora.
    explicit SymbolIndex(Dwfl_Module* module);

    struct Found {
        std::string_view name; ///< mangled; without a version ("@@GLIBC_2.2.5")
        ElfAddr start;
    };
    /// The function that contains this address. A symbol without a size reaches to the next symbol,
    /// or to the end of its section.
    [[nodiscard]] std::optional<Found> find(ElfAddr address) const;

  private:
    struct Symbol {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        const char* name = nullptr;
        bool sized = false;
        bool function = false; ///< and not only a label
        bool local = false;
    };
    static bool is_better_name(const Symbol& a, const Symbol& b);
    template <class Accept> std::optional<Found> best(std::size_t last, Accept accept) const;

    std::vector<Symbol> symbols_;      ///< by begin
    std::vector<std::uint64_t> reach_; ///< largest end of a sized symbol up to this one
};

} // namespace memleax
