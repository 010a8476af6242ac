// SPDX-License-Identifier: GPL-3.0-or-later
/// Where glibc's malloc keeps its books in a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

struct GlibcPlaces {
    std::uint64_t main_arena = 0;        ///< its top is 0 before the first call of malloc
    std::uint64_t parameters = 0;        ///< mp_
    std::vector<AddrRange> entry_points; ///< code of malloc, free and their kin
};

/// Which module has the process's malloc, and is it a glibc whose layout we know? The reason if
/// not, for the user. Needs no stop.
Result<const Module*> find_glibc(const ModuleMap& modules);

/// By shape: both are static variables without symbols. Threads may run meanwhile, and a moment
/// may show no such thing; EAGAIN then.
Result<GlibcPlaces> find_glibc_places(const Module& libc, std::span<const Mapping> mappings,
                                      MemoryReader& memory);

} // namespace memleax
