// SPDX-License-Identifier: GPL-3.0-or-later
/// The allocation functions that we watch, and what their arguments mean (malloc(3),
/// posix_memalign(3), reallocarray(3)).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "arch.hpp"
#include "memleax/modules.hpp"
#include "memleax/types.hpp"

namespace memleax {

/// Which kind of function a symbol is. The order is that in which breakpoints are put in: those
/// that end blocks first, so that no block is taken for live whose end could not have been seen.
enum class AllocatorCall : std::uint8_t { free, realloc, allocate };

struct AllocatorFunction {
    std::string_view name;
    AllocatorCall call;
    int pointer_argument; ///< the block that ends; -1 if none
    int size_argument;    ///< -1 if none
    int count_argument;   ///< multiplies the size; -1 if none
    int out_argument;     ///< where the new block's address is stored; -1: it is the result
};

/// All that we know.
extern const std::array<AllocatorFunction, 11> kAllocatorFunctions;

/// An entry point in the target.
struct AllocatorEntry {
    const AllocatorFunction* function = nullptr;
    CodeAddr address;
    std::uint64_t size = 0; ///< bytes of the function's code, 0 if the symbol does not say
};

/// The entry points that a module defines: from its dynamic symbols, and for a statically linked
/// program from its full symbol table. One for each address, however many names it has.
std::vector<AllocatorEntry> find_allocator_entries(const Module& module, bool is_main);

/// The address of the function that the dynamic linker calls when it has mapped or unmapped
/// something (struct r_debug's r_brk; glibc elf/dl-debug.c, musl ldso/dynlink.c), if it is this
/// module.
std::optional<CodeAddr> find_module_event(const Module& module);

/// Is this code of the allocator's that hands cached blocks, freed by the program already, to
/// free()? By the names in glibc's malloc/arena.c and malloc/malloc.c, for statically linked
/// programs.
bool frees_cached_blocks(const Module& module, ElfAddr address);

/// Bytes asked for by a call, from its arguments; all ones if count * size overflows.
std::uint64_t requested_size(const AllocatorFunction& function, const arch::Registers& regs);

} // namespace memleax
