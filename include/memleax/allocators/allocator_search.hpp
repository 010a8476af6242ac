// SPDX-License-Identifier: GPL-3.0-or-later
/// Where the functions of an AllocatorApi are in the modules of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/allocators/allocator_api.hpp"
#include "memleax/base/types.hpp"
#include "memleax/probes/probe_places.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/symbols/debug_sources.hpp"

namespace memleax {

/// An entry point in the target.
struct AllocatorEntry {
    const AllocatorFunction* function = nullptr; ///< the AllocatorApi's
    CodeAddr address;
    std::uint64_t size = 0;    ///< bytes of the function's code, 0 if the symbol does not say
    bool in_c_library = false; ///< in the library that defines __libc_start_main
    /// As the function's, but unclear where several kinds of functions are one (tcmalloc's delete
    /// is its free), or may be inlined into each other's callers (a program's own operators).
    AllocatedBy by = AllocatedBy::unclear;
    /// AllocatorFunction::nothrow_twin, in the same library; 0: none, or it may differ in more.
    CodeAddr nothrow_twin = {};
    /// It is entered behind its first instruction, too (find_inner_entries()).
    bool has_inner_entry = false;
};

/// An entry of sigaction(3). In the C libraries signal(3) and its like call the same code (glibc
/// signal/sigaction.c, musl src/signal/sigaction.c).
struct SignalActionEntry {
    CodeAddr address;
    std::uint64_t size = 0;       ///< as AllocatorEntry's
    bool of_c_library = false;    ///< else an interposer's, with books of its own
    bool has_inner_entry = false; ///< as AllocatorEntry's
};

/// What one module has for us.
struct ModulePlaces {
    /// One for each address, however many names it has.
    std::vector<AllocatorEntry> entries;
    /// Functions that are chosen at run time (STT_GNU_IFUNC): they cannot be watched.
    std::vector<std::string_view> chosen_at_run_time;
    /// The function that the dynamic linker calls when it has mapped or unmapped something (struct
    /// r_debug's r_brk; glibc elf/dl-debug.c, musl ldso/dynlink.c), if it is this module.
    std::optional<CodeAddr> module_event;
    std::vector<SignalActionEntry> signal_actions; ///< one for each address
    /// The C library's functions after which the process's memory is gone, unless they fail.
    std::vector<CodeAddr> last_calls; ///< one for each address
    std::vector<ProbePlace> probes;   ///< several may be at one address
    bool is_leak_sanitizer = false;   ///< it looks for leaks at the end of its process, or can
};

/// Looks through modules, and remembers what each file's symbol tables told: a large one takes
/// milliseconds, and is met again by each look at a process that is starting, and by its children.
/// It belongs to the thread of the images.
class AllocatorSearch {
  public:
    /// `api` is complete, and never null. Symbols that were stripped are looked for in `sources`,
    /// those of a program first in `debug_file`, which may be "".
    explicit AllocatorSearch(std::shared_ptr<const AllocatorApi> api, DebugSources sources = {},
                             std::string debug_file = {});
    ~AllocatorSearch();
    AllocatorSearch(const AllocatorSearch&) = delete;
    AllocatorSearch& operator=(const AllocatorSearch&) = delete;

    [[nodiscard]] const std::shared_ptr<const AllocatorApi>& api() const { return api_; }
    /// has_inner_entry is to be told from now on; else it is false.
    void look_for_inner_entries() { looks_for_inner_entries_ = true; }

    /// Exported symbols count as they are. Others (.symtab, the debug file's included) count if
    /// there is one that begins blocks and one that ends them, as a lone "free" may be anything, or
    /// if the user named them. None of them counts that is not in code.
    [[nodiscard]] ModulePlaces find(const Module& module, bool is_main);

  private:
    struct FoundSymbols;
    FoundSymbols& look_through(const Module& module, bool is_main);
    void find_inner_entries_of(const Module& module, FoundSymbols& found, ModulePlaces* places);

    std::shared_ptr<const AllocatorApi> api_;
    DebugSources sources_;
    std::string debug_file_;
    bool looks_for_inner_entries_ = false;
    NameFilter filter_; ///< of the api's names, and of those that tell what a module is
    absl::flat_hash_map<const ElfImage*, std::unique_ptr<FoundSymbols>> known_;
};

/// Is this code of the allocator's that hands cached blocks, freed by the program already, to
/// free()? By the names in glibc's malloc/arena.c and malloc/malloc.c, for statically linked
/// programs.
bool frees_cached_blocks(const Module& module, ElfAddr address);

/// Is this code of the C++ runtime's that makes room for an exception, as for the one that an
/// operator new is about to throw? (Itanium C++ ABI, section 2.4.2)
bool makes_exception(const Module& module, ElfAddr address);

} // namespace memleax
