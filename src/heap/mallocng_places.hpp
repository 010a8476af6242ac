// SPDX-License-Identifier: GPL-3.0-or-later
/// Where musl's malloc keeps its books in a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heap_books.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

/// The module that has the process's malloc.
struct Mallocng {
    const Module* module = nullptr;
    /// Code that changes what the books say; none: not known, as the program is stripped.
    std::vector<AddrRange> code;
};

struct MallocngPlaces {
    std::uint64_t context = 0;   ///< all zero before the first call of malloc
    std::vector<AddrRange> code; ///< as Mallocng has it
};

/// Has it the table of sizes of musl's malloc? Needs no stop.
bool has_mallocng(const Module& module);

/// `is_static`: it is linked into the program.
std::vector<AddrRange> find_mallocng_code(const Module& module, bool is_static);

/// By its symbol, or by shape. EAGAIN if there is no such thing, or are several: a thread may be at
/// the first call of malloc.
Result<MallocngPlaces> find_mallocng_places(const Mallocng& libc, std::span<const Mapping> mappings,
                                            MemoryReader& memory, const PresentParts& present);

} // namespace memleax
