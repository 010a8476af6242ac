// SPDX-License-Identifier: GPL-3.0-or-later
/// What compilers append to the names of functions that they have moved or cut.
#pragma once

#include <string_view>

namespace memleax {

struct FunctionPart {
    std::string_view function; ///< of the source; a part of the symbol's name
    /// Code that is unlikely to run, away from the function: an offset from its symbol would say
    /// nothing about the function.
    bool is_elsewhere = false;
};

/// "f.cold" and "f.cold.12" (gcc, clang) are parts of f; "f.lto_priv.3" (gcc) and "f.llvm.7261"
/// (clang) are f, made unique at link time. Copies that differ from what the source says
/// (".isra.0", ".constprop.0", ".part.0") keep their names.
FunctionPart part_of(std::string_view symbol);

} // namespace memleax
