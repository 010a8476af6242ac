// SPDX-License-Identifier: GPL-3.0-or-later
/// What a module's file tells of it.
#pragma once

#include <functional>
#include <string_view>

#include "memleax/proc/modules.hpp"

namespace memleax {

/// Has the module a function of this name, for others?
bool exports(const Module& module, std::string_view name);

/// Has the program no dynamic linker? Nor has that itself, if it was run by hand. Null is none.
bool may_be_static(const Module* program);

/// Calls `each` for all of the module's file, in pieces that overlap by 512 bytes, until it returns
/// true.
void search_file(const Module& module, const std::function<bool(std::string_view)>& each);

} // namespace memleax
