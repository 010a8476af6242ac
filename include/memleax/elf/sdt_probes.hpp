// SPDX-License-Identifier: GPL-3.0-or-later
/// SystemTap's static probes of an ELF file, as sys/sdt.h leaves them in .note.stapsdt
/// (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memleax/base/types.hpp"

struct Elf;

namespace memleax {

/// One place of a probe: a macro that was inlined into several functions has several.
struct SdtProbe {
    std::string provider;
    std::string name;
    ElfAddr address; ///< of a no-op
    /// A counter of 16 bits: the program computes the arguments, and comes by the no-op, only while
    /// it is not 0. Absent: it always does.
    std::optional<ElfAddr> semaphore;
    std::string arguments; ///< "-4@%edi 8@-24(%rbp)"
    /// Is the place in code, and the semaphore in data that may be written to?
    bool is_sound = false;

    /// "libc:memory_heap_new"
    [[nodiscard]] std::string full_name() const { return provider + ":" + name; }
};

/// Those of the file, in its order, 65,536 at most; none for a null handle. The file is untrusted:
/// notes that are malformed, or have no name, are left out.
std::vector<SdtProbe> read_sdt_probes(Elf* elf);

} // namespace memleax
