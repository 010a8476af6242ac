// SPDX-License-Identifier: GPL-3.0-or-later
/// What DWARF tells about one address: the function, those inlined into it there, and their lines.
#pragma once

#include <optional>
#include <vector>

#include <elfutils/libdw.h>

#include "memleax/events/source_frame.hpp"
#include "unit_functions.hpp"

namespace memleax {

struct DwarfFrames {
    /// Innermost first; at least one. The last is the function that is really there. `pc`, `module`
    /// and `offset` are left to the caller.
    std::vector<SourceFrame> frames;
    std::optional<Dwarf_Addr> function_start;
};

/// The frames at an address of this compilation unit, in the terms of its DWARF.
DwarfFrames find_dwarf_frames(Dwarf_Die unit, const UnitFunctions& functions, Dwarf_Addr address);

} // namespace memleax
