// SPDX-License-Identifier: GPL-3.0-or-later
// Which symbols of a module are allocation functions.
#include "memleax/allocators/allocator_search.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "memleax/elf/inner_entries.hpp"
#include "memleax/symbols/debug_symbols.hpp"

namespace memleax {

namespace {

// What defines these is the C library, the C++ runtime, the dynamic linker, LeakSanitizer (of
// AddressSanitizer's library as well).
constexpr const char* kCLibrary = "__libc_start_main";
constexpr const char* kCxxRuntime = "__cxa_throw";
constexpr const char* kModuleEvent = "_dl_debug_state";
constexpr const char* kLeakSanitizer = "__lsan_do_leak_check";
constexpr const char* kSignalAction = "sigaction";
/// What exit(3) and its like end with (glibc, musl). Not execve: who calls that after vfork(2) has
/// blocked SIGTRAP, and would not survive a breakpoint if nobody is there to catch it.
constexpr std::array<const char*, 2> kLastCalls{"_exit", "_Exit"};

bool is_code(const ElfImage& image, ElfAddr address) {
    return std::ranges::any_of(image.segments(), [address](const ElfSegment& segment) {
        return segment.executable && address >= segment.address &&
               address.value() - segment.address.value() < segment.file_size;
    });
}

/// Does code lie within one of the functions of these names?
bool lies_in(const Module& module, SymbolTable table, ElfAddr address,
             std::span<const std::string_view> names) {
    bool found = false;
    NameFilter filter;
    for (const std::string_view name : names) {
        filter.add(name);
    }
    const auto look_at = [&](const ElfSymbol& symbol) {
        found = found || (address >= symbol.address &&
                          address.value() - symbol.address.value() < symbol.size &&
                          std::find(names.begin(), names.end(), symbol.name) != names.end());
    };
    if (module.image) {
        module.image->for_each_function(table, look_at, &filter);
    }
    return found;
}

} // namespace

/// What a file's symbol tables tell.
struct AllocatorSearch::FoundSymbols {
    struct Symbol {
        const AllocatorFunction* function;
        ElfSymbol symbol;
        SymbolTable table;
    };
    std::weak_ptr<const ElfImage> image; ///< the names point into it
    std::vector<Symbol> functions;       ///< exported ones first
    std::optional<ElfAddr> module_event;
    /// Each once, though a function may be in both tables, and have several names.
    std::map<ElfAddr, std::uint64_t> signal_actions; ///< with their sizes
    std::set<ElfAddr> last_calls;
    std::map<ElfAddr, bool> has_inner_entry; ///< of those that were watched so far
    ProbePoints probes;
    bool is_c_library = false;
    bool is_cxx_runtime = false;
    bool is_leak_sanitizer = false;
};

AllocatorSearch::AllocatorSearch(std::shared_ptr<const AllocatorApi> api, DebugSources sources,
                                 std::string debug_file)
    : api_(std::move(api)), sources_(std::move(sources)), debug_file_(std::move(debug_file)),
      filter_(api_->filter()) {
    for (const char* name : {kCLibrary, kCxxRuntime, kModuleEvent, kLeakSanitizer, kSignalAction}) {
        filter_.add(name);
    }
    for (const char* name : kLastCalls) {
        filter_.add(name);
    }
}

AllocatorSearch::~AllocatorSearch() = default;

AllocatorSearch::FoundSymbols& AllocatorSearch::look_through(const Module& module, bool is_main) {
    const std::shared_ptr<ElfImage>& image = module.image;
    const auto known = known_.find(image.get());
    if (known != known_.end() && !known->second->image.expired()) {
        return *known->second;
    }
    // Of libraries that come and go, nothing stays.
    absl::erase_if(known_, [](const auto& entry) { return entry.second->image.expired(); });
    if (!image->has_full_symbols()) {
        image->set_debug_symbols(find_debug_symbols(module, sources_, is_main ? debug_file_ : ""));
    }
    auto found = std::make_unique<FoundSymbols>();
    found->image = image;
    for (const SymbolTable table : {SymbolTable::dynamic, SymbolTable::full}) {
        const auto look_at = [&](const ElfSymbol& symbol) {
            if (!is_code(*image, symbol.address)) {
                return; // a breakpoint there would be a byte of data that is wrong
            }
            if (api_->probes().wants_function(symbol.name)) {
                found->probes.add_function(symbol);
            }
            if (const AllocatorFunction* function = api_->find(symbol.name)) {
                found->functions.push_back({function, symbol, table});
            } else if (symbol.name == kCLibrary) {
                found->is_c_library = true;
            } else if (symbol.name == kCxxRuntime) {
                found->is_cxx_runtime = true;
            } else if (symbol.name == kLeakSanitizer) {
                found->is_leak_sanitizer = true;
            } else if (symbol.name == kSignalAction && !symbol.indirect) {
                found->signal_actions.emplace(symbol.address, symbol.size);
            } else if (!symbol.indirect && std::find(kLastCalls.begin(), kLastCalls.end(),
                                                     symbol.name) != kLastCalls.end()) {
                found->last_calls.insert(symbol.address);
            } else if (table == SymbolTable::dynamic && symbol.name == kModuleEvent) {
                found->module_event = symbol.address;
            }
        };
        image->for_each_function(table, look_at, &filter_);
    }
    found->probes.add_sdt(*image, api_->probes());
    return *(known_[image.get()] = std::move(found));
}

// Only of what is to be watched, as all of the file's code is read for it: libstdc++'s operators
// seldom are.
void AllocatorSearch::find_inner_entries_of(const Module& module, FoundSymbols& found,
                                            ModulePlaces* places) {
    if (!looks_for_inner_entries_) {
        return;
    }
    std::vector<ElfAddr> unknown;
    const auto look_at = [&](const auto& entry) {
        const ElfAddr address = module.to_elf(entry.address);
        if (found.has_inner_entry.try_emplace(address, false).second) {
            unknown.push_back(address);
        }
    };
    std::ranges::for_each(places->entries, look_at);
    std::ranges::for_each(places->signal_actions, look_at);
    if (!unknown.empty()) {
        for (const ElfAddr address : find_inner_entries(*module.image, std::move(unknown))) {
            found.has_inner_entry[address] = true;
        }
    }
    const auto tell = [&](auto& entry) {
        entry.has_inner_entry = found.has_inner_entry.at(module.to_elf(entry.address));
    };
    std::ranges::for_each(places->entries, tell);
    std::ranges::for_each(places->signal_actions, tell);
}

ModulePlaces AllocatorSearch::find(const Module& module, bool is_main) {
    ModulePlaces places;
    if (!module.image) {
        return places;
    }
    FoundSymbols& found = look_through(module, is_main);
    if (found.module_event) {
        places.module_event = module.to_runtime(*found.module_event);
    }
    for (const auto& [address, size] : found.signal_actions) {
        places.signal_actions.push_back({module.to_runtime(address), size, found.is_c_library});
    }
    for (const ElfAddr address : found.last_calls) {
        if (found.is_c_library) {
            places.last_calls.push_back(module.to_runtime(address));
        }
    }
    places.is_leak_sanitizer = found.is_leak_sanitizer;
    places.probes = found.probes.places(module);
    for (const ProbePoints::Function& function : found.probes.functions) {
        if (function.indirect) {
            places.chosen_at_run_time.push_back(function.name);
        }
    }
    std::vector<bool> begins(api_->groups());
    std::vector<bool> ends(api_->groups());
    bool has_malloc = false;
    for (const auto& [function, symbol, table] : found.functions) {
        if (function->origin.empty()) {
            begins[function->group] =
                begins[function->group] || function->call == AllocatorCall::allocate;
            ends[function->group] = ends[function->group] || function->call == AllocatorCall::free;
            has_malloc = has_malloc || function->name == "malloc";
        }
    }
    const AllocatorFunction* const plain_malloc = api_->find("malloc");
    const AllocatorFunction* const plain_new = api_->find("_Znwm");
    const bool is_cxx_runtime = found.is_cxx_runtime || module.name.starts_with("libc++");
    // The C++ runtime's operators call malloc, which tells all (but for what they round up), and
    // costs one stop less.
    const bool takes_operators = has_malloc || !is_cxx_runtime || api_->takes_runtime_operators();
    // Elsewhere they are the program's, and some of them may have been inlined.
    const bool has_clear_operators = !is_main && (has_malloc || is_cxx_runtime);
    const bool is_static = is_main && module.image->interpreter().empty();
    const auto belongs = [&](const AllocatorFunction& function, SymbolTable table) {
        if (!function.origin.empty()) {
            return true;
        }
        if (plain_new != nullptr && function.group == plain_new->group && !takes_operators &&
            !function.may_round_up) {
            return false;
        }
        if (function.mapping != MappingCall::none) { // the dynamic linker's own are not exported
            return table == SymbolTable::dynamic || is_static;
        }
        const bool is_plain = plain_malloc != nullptr && function.group == plain_malloc->group;
        const bool is_exported = table == SymbolTable::dynamic || is_static;
        return (is_plain && is_exported) || (begins[function.group] && ends[function.group]);
    };
    // A program's own operators may differ in more than what they do when memory is exhausted.
    const auto twin_of = [&](const AllocatorFunction& function) {
        const bool is_operator = plain_new != nullptr && function.group == plain_new->group;
        if (function.nothrow_twin.empty() || (is_operator && !has_clear_operators)) {
            return CodeAddr();
        }
        const auto twin = std::find_if(
            found.functions.begin(), found.functions.end(), [&](const FoundSymbols::Symbol& each) {
                return !each.symbol.indirect && each.function->name == function.nothrow_twin;
            });
        return twin != found.functions.end() ? module.to_runtime(twin->symbol.address) : CodeAddr();
    };
    for (const auto& [function, symbol, table] : found.functions) {
        if (!belongs(*function, table)) {
            continue;
        }
        const CodeAddr address = module.to_runtime(symbol.address);
        if (symbol.indirect) {
            places.chosen_at_run_time.push_back(symbol.name);
            continue;
        }
        const auto known = std::find_if(places.entries.begin(), places.entries.end(),
                                        [&](const auto& e) { return e.address == address; });
        const bool is_operator =
            function->by == AllocatedBy::operator_new || function->by == AllocatedBy::array_new;
        const AllocatedBy by =
            is_operator && !has_clear_operators ? AllocatedBy::unclear : function->by;
        if (known == places.entries.end()) {
            places.entries.push_back({function, address, symbol.size,
                                      found.is_c_library && !is_main, by, twin_of(*function)});
            continue;
        }
        known->by = known->by == by ? by : AllocatedBy::unclear;
        if (!function->origin.empty()) {
            known->function = function; // the user knows better
        }
    }
    find_inner_entries_of(module, found, &places);
    return places;
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
