// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/allocator_api.hpp"

#include <algorithm>
#include <limits>

#include "memleax/log.hpp"

namespace memleax {

// Columns after the call: pointer, size, count, out.
const std::array<AllocatorFunction, 11> kAllocatorFunctions{{
    {"free", AllocatorCall::free, 0, -1, -1, -1},
    {"cfree", AllocatorCall::free, 0, -1, -1, -1},
    {"realloc", AllocatorCall::realloc, 0, 1, -1, -1},
    {"reallocarray", AllocatorCall::realloc, 0, 2, 1, -1},
    {"calloc", AllocatorCall::allocate, -1, 1, 0, -1},
    {"malloc", AllocatorCall::allocate, -1, 0, -1, -1},
    {"memalign", AllocatorCall::allocate, -1, 1, -1, -1},
    {"aligned_alloc", AllocatorCall::allocate, -1, 1, -1, -1},
    {"posix_memalign", AllocatorCall::allocate, -1, 2, -1, 0},
    {"valloc", AllocatorCall::allocate, -1, 0, -1, -1},
    {"pvalloc", AllocatorCall::allocate, -1, 0, -1, -1},
}};

std::vector<AllocatorEntry> find_allocator_entries(const Module& module, bool is_main) {
    std::vector<AllocatorEntry> entries;
    if (!module.image) {
        return entries;
    }
    const auto collect = [&](const ElfSymbol& symbol) {
        const auto function =
            std::find_if(kAllocatorFunctions.begin(), kAllocatorFunctions.end(),
                         [&](const AllocatorFunction& f) { return f.name == symbol.name; });
        if (function == kAllocatorFunctions.end()) {
            return;
        }
        const CodeAddr address = module.to_runtime(symbol.address);
        if (symbol.indirect) {
            log_warning("{} in {} is chosen at run time (IFUNC) and is not watched", symbol.name,
                        module.name);
            return;
        }
        const bool known = std::any_of(entries.begin(), entries.end(),
                                       [&](const auto& e) { return e.address == address; });
        if (!known) {
            entries.push_back({&*function, address, symbol.size});
        }
    };
    module.image->for_each_function(SymbolTable::dynamic, collect);
    if (entries.empty() && is_main && module.image->interpreter().empty()) {
        module.image->for_each_function(SymbolTable::full, collect);
    }
    return entries;
}

std::optional<CodeAddr> find_module_event(const Module& module) {
    std::optional<CodeAddr> address;
    if (module.image) {
        module.image->for_each_function(SymbolTable::dynamic, [&](const ElfSymbol& symbol) {
            if (symbol.name == "_dl_debug_state") {
                address = module.to_runtime(symbol.address);
            }
        });
    }
    return address;
}

bool frees_cached_blocks(const Module& module, ElfAddr address) {
    static constexpr std::string_view names[] = {"__malloc_arena_thread_freeres",
                                                 "tcache_thread_shutdown", "__libc_thread_freeres"};
    bool found = false;
    if (module.image) {
        module.image->for_each_function(SymbolTable::full, [&](const ElfSymbol& symbol) {
            found = found ||
                    (address >= symbol.address &&
                     address.value() - symbol.address.value() < symbol.size &&
                     std::find(std::begin(names), std::end(names), symbol.name) != std::end(names));
        });
    }
    return found;
}

std::uint64_t requested_size(const AllocatorFunction& function, const arch::Registers& regs) {
    if (function.size_argument < 0) {
        return 0;
    }
    const std::uint64_t size = arch::argument(regs, static_cast<unsigned>(function.size_argument));
    if (function.count_argument < 0) {
        return size;
    }
    const std::uint64_t count =
        arch::argument(regs, static_cast<unsigned>(function.count_argument));
    std::uint64_t product = 0;
    return __builtin_mul_overflow(size, count, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                         : product;
}

} // namespace memleax
