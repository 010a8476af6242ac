// SPDX-License-Identifier: GPL-3.0-or-later
/// Processes that execute a translation of their program's code (valgrind's): breakpoints and jumps
/// in that code would be translated as if they were the program's.
#pragma once

#include <string>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// The name of the library that valgrind puts into each process that a tool at this path runs
/// ("vgpreload_core-amd64-linux.so"); empty if the path has no name as its tools have
/// ("TOOL-amd64-linux").
std::string core_of_valgrind_tool(const std::string& executable);

/// Is the process run by valgrind, whatever the tool? Certain also when it has just been executed:
/// its program is a tool, by its name, without a dynamic linker, and its core library is beside it,
/// or mapped.
bool is_run_by_valgrind(Tid pid);

/// The refusal of such a process.
Result<void> check_not_translated(Tid pid);

} // namespace memleax
