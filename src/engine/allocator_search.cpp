// SPDX-License-Identifier: GPL-3.0-or-later
// Which symbols of a module are allocation functions.
#include <algorithm>
#include <span>

#include "memleax/allocator_api.hpp"
#include "memleax/log.hpp"

namespace memleax {

namespace {

/// What a module's symbol tables tell.
struct FoundSymbols {
    struct Symbol {
        const AllocatorFunction* function;
        ElfSymbol symbol;
        SymbolTable table;
    };
    std::vector<Symbol> functions; ///< exported ones first
    bool is_c_library = false;
    bool is_cxx_runtime = false;
};

FoundSymbols look_through(const AllocatorApi& api, const Module& module) {
    FoundSymbols found;
    for (const SymbolTable table : {SymbolTable::dynamic, SymbolTable::full}) {
        module.image->for_each_function(table, [&](const ElfSymbol& symbol) {
            if (const AllocatorFunction* function = api.find(symbol.name)) {
                found.functions.push_back({function, symbol, table});
            } else if (symbol.name == "__libc_start_main") {
                found.is_c_library = true;
            } else if (symbol.name == "__cxa_throw") {
                found.is_cxx_runtime = true;
            }
        });
    }
    found.is_cxx_runtime = found.is_cxx_runtime || module.name.starts_with("libc++");
    return found;
}

/// Does code lie within one of the functions of these names?
bool lies_in(const Module& module, SymbolTable table, ElfAddr address,
             std::span<const std::string_view> names) {
    bool found = false;
    if (module.image) {
        module.image->for_each_function(table, [&](const ElfSymbol& symbol) {
            found = found || (address >= symbol.address &&
                              address.value() - symbol.address.value() < symbol.size &&
                              std::find(names.begin(), names.end(), symbol.name) != names.end());
        });
    }
    return found;
}

} // namespace

std::vector<AllocatorEntry> AllocatorApi::find_entries(const Module& module, bool is_main) const {
    std::vector<AllocatorEntry> entries;
    if (!module.image) {
        return entries;
    }
    const FoundSymbols found = look_through(*this, module);
    std::vector<bool> begins(groups_);
    std::vector<bool> ends(groups_);
    bool has_malloc = false;
    for (const auto& [function, symbol, table] : found.functions) {
        if (function->origin.empty()) {
            begins[function->group] =
                begins[function->group] || function->call == AllocatorCall::allocate;
            ends[function->group] = ends[function->group] || function->call == AllocatorCall::free;
            has_malloc = has_malloc || function->name == "malloc";
        }
    }
    const AllocatorFunction* const plain_malloc = find("malloc");
    const AllocatorFunction* const plain_new = find("_Znwm");
    // The C++ runtime's operators call malloc, which tells all, and costs one stop less.
    const bool takes_operators = has_malloc || !found.is_cxx_runtime;
    const bool is_static = is_main && module.image->interpreter().empty();
    const auto belongs = [&](const AllocatorFunction& function, SymbolTable table) {
        if (!function.origin.empty()) {
            return true;
        }
        if (plain_new != nullptr && function.group == plain_new->group && !takes_operators) {
            return false;
        }
        if (function.mapping != MappingCall::none) { // the dynamic linker's own are not exported
            return table == SymbolTable::dynamic || is_static;
        }
        const bool is_plain = plain_malloc != nullptr && function.group == plain_malloc->group;
        const bool is_exported = table == SymbolTable::dynamic || is_static;
        return (is_plain && is_exported) || (begins[function.group] && ends[function.group]);
    };
    for (const auto& [function, symbol, table] : found.functions) {
        if (!belongs(*function, table)) {
            continue;
        }
        const CodeAddr address = module.to_runtime(symbol.address);
        if (symbol.indirect) {
            log_warning("{} in {} is chosen at run time (IFUNC) and is not watched", symbol.name,
                        module.name);
            continue;
        }
        const auto known = std::find_if(entries.begin(), entries.end(),
                                        [&](const auto& e) { return e.address == address; });
        if (known == entries.end()) {
            entries.push_back({function, address, symbol.size, found.is_c_library && !is_main});
        } else if (!function->origin.empty()) {
            known->function = function; // the user knows better
        }
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
    return lies_in(module, SymbolTable::full, address, names);
}

bool makes_exception(const Module& module, ElfAddr address) {
    static constexpr std::string_view names[] = {"__cxa_allocate_exception"};
    return lies_in(module, SymbolTable::dynamic, address, names) ||
           lies_in(module, SymbolTable::full, address, names);
}

} // namespace memleax
