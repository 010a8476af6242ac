// SPDX-License-Identifier: GPL-3.0-or-later
/// What a module's file tells of it.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/elf/symbol_table.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// Has the module a function of this name, for others?
bool exports(const Module& module, std::string_view name);

/// Where the code of these functions is in the process, and that of what the compiler has made of a
/// part of one, which is named so: free_group.isra.0.
std::vector<AddrRange> find_code(const Module& module, SymbolTable table,
                                 std::span<const std::string_view> names);

/// Has the program no dynamic linker? Nor has that itself, if it was run by hand. Null is none.
bool may_be_static(const Module* program);

/// Calls `each` for the constants in the module's file, in pieces that overlap by 512 bytes, until
/// it returns true: for what is neither code nor can be written to, or all, if the linker has put
/// constants to the code.
void search_file(const Module& module, const std::function<bool(std::string_view)>& each);

} // namespace memleax
