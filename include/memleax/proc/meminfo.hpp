// SPDX-License-Identifier: GPL-3.0-or-later
/// The machine's memory, for who looks often.
#pragma once

#include "memleax/proc/memory_look.hpp"

namespace memleax {

/// Of read_machine_memory() what /proc/meminfo has: amounts, no counters, and no pressure.
MachineMemory read_meminfo();

} // namespace memleax
