// SPDX-License-Identifier: GPL-3.0-or-later
/// What `status` says of memory: whose is short, and the figures.
#pragma once

#include <string>

#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {

/// "live        3 blocks, 1.2 KiB\n"
std::string status_line(const char* name, const std::string& text);

/// For a reader in a hurry.
std::string pressure_line(const MemoryLooks& looks);
/// Of the process alone; what changes with the change since `before`, where that is known.
std::string process_memory_lines(const ProcessMemory& now, const ProcessMemory& before);
/// The other figures. Finds out who would be killed first.
std::string memory_look_lines(const MemoryLooks& looks);

} // namespace memleax
