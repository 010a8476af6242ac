// SPDX-License-Identifier: GPL-3.0-or-later
/// Where glibc's malloc keeps its books in a process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "glibc_layout.hpp"
#include "heap_books.hpp"
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
    /// Code of malloc, free and their kin; none: not known, as the program is stripped.
    std::vector<AddrRange> entry_points;
};

struct GlibcPlaces {
    const glibc::Layout* layout = nullptr;
    std::uint64_t main_arena = 0;        ///< its top is 0 before the first call of malloc
    std::uint64_t parameters = 0;        ///< mp_
    std::vector<AddrRange> entry_points; ///< as Glibc has them
};

/// Is this shared library a glibc?
bool is_glibc(const Module& module);
/// Has this program, which is linked statically, a glibc's malloc, of whatever version?
bool has_glibc_inside(const Module& program);
/// Those whose layout we know. The Error names the version.
Result<Glibc> find_shared_glibc(const Module& libc);
std::optional<Glibc> find_static_glibc(const Module& program);

/// By shape: both are static variables without symbols. Threads may run meanwhile, and a moment
/// may show no such thing; EAGAIN then.
Result<GlibcPlaces> find_glibc_places(const Glibc& libc, std::span<const Mapping> mappings,
                                      MemoryReader& memory, const PresentParts& present);

} // namespace memleax
