// SPDX-License-Identifier: GPL-3.0-or-later
/// Where glibc's malloc keeps its books in a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "glibc_layout.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// The module that has the process's malloc.
struct Glibc {
    const Module* module = nullptr;
    const glibc::Layout* layout = nullptr;
    bool is_static = false; ///< linked into the program
};

struct GlibcPlaces {
    const glibc::Layout* layout = nullptr;
    std::uint64_t main_arena = 0; ///< its top is 0 before the first call of malloc
    std::uint64_t parameters = 0; ///< mp_
    /// Code of malloc, free and their kin; none: not known, as the program is stripped.
    std::vector<AddrRange> entry_points;
};

/// Is the process's malloc that of a glibc whose layout we know? The reason if not, for the user.
/// Needs no stop.
Result<Glibc> find_glibc(const ModuleMap& modules);

/// By shape: both are static variables without symbols. Threads may run meanwhile, and a moment
/// may show no such thing; EAGAIN then.
Result<GlibcPlaces> find_glibc_places(const Glibc& libc, std::span<const Mapping> mappings,
                                      MemoryReader& memory);

} // namespace memleax
