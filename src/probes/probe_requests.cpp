// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/probes/probe_requests.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fnmatch.h>

namespace memleax {

namespace {

bool matches(const std::string& glob, const std::string& name) {
    return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

/// glibc manual, "Memory Allocation Probes".
constexpr std::array<std::pair<std::string_view, std::string_view>, 27> kExplained{{
    {"libc:memory_sbrk_more", "the main arena grows: by sbrk, so many bytes"},
    {"libc:memory_sbrk_less", "the main arena shrinks: by sbrk, so many bytes"},
    {"libc:memory_heap_new", "a heap of another arena is mapped"},
    {"libc:memory_heap_free", "a heap of another arena is unmapped"},
    {"libc:memory_heap_more", "a heap of another arena grows"},
    {"libc:memory_heap_less", "a heap of another arena shrinks"},
    {"libc:memory_arena_new", "an arena is made for a thread"},
    {"libc:memory_arena_reuse", "a thread shares an arena, as there are enough"},
    {"libc:memory_arena_reuse_wait", "a thread waits for the arena that it shares"},
    {"libc:memory_arena_reuse_free_list", "a thread takes an arena that nobody uses"},
    {"libc:memory_arena_retry", "an arena had no memory left: another one is tried"},
    {"libc:memory_malloc_retry", "malloc had no memory in its arena, and tries another one"},
    {"libc:memory_realloc_retry", "the same in realloc"},
    {"libc:memory_memalign_retry", "the same in memalign and its kin"},
    {"libc:memory_calloc_retry", "the same in calloc"},
    {"libc:memory_tcache_double_free", "a block is freed twice, as the thread's cache finds"},
    {"libc:memory_mallopt", "mallopt is called"},
    {"libc:memory_mallopt_mxfast", "mallopt sets M_MXFAST"},
    {"libc:memory_mallopt_trim_threshold", "mallopt sets M_TRIM_THRESHOLD"},
    {"libc:memory_mallopt_top_pad", "mallopt sets M_TOP_PAD"},
    {"libc:memory_mallopt_mmap_threshold", "mallopt sets M_MMAP_THRESHOLD"},
    {"libc:memory_mallopt_mmap_max", "mallopt sets M_MMAP_MAX"},
    {"libc:memory_mallopt_perturb", "mallopt sets M_PERTURB"},
    {"libc:memory_mallopt_arena_test", "mallopt sets M_ARENA_TEST"},
    {"libc:memory_mallopt_arena_max", "mallopt sets M_ARENA_MAX"},
    {"libc:memory_mallopt_check_action", "mallopt sets M_CHECK_ACTION"},
    {"libc:memory_mallopt_free_dyn_thresholds",
     "free of a mapped block moves the thresholds for mmap and for trimming"},
}};

} // namespace

bool ProbeRequests::add(const std::string& text) {
    const std::size_t colon = text.find(':');
    const bool is_sdt = colon != std::string::npos;
    const bool is_sound = is_sdt ? colon != 0 && colon + 1 != text.size()
                                 : !text.empty() && text.find_first_of("*?[") == std::string::npos;
    if (!is_sound || text.find_first_of(" \t,") != std::string::npos) {
        return false;
    }
    if (std::find(all_.begin(), all_.end(), text) == all_.end()) {
        all_.push_back(text);
        (is_sdt ? globs_ : functions_).push_back(text);
    }
    return true;
}

bool ProbeRequests::wants(const SdtProbe& probe) const {
    return std::any_of(globs_.begin(), globs_.end(), [&probe](const std::string& glob) {
        return matches(glob, probe.full_name());
    });
}

bool ProbeRequests::wants_function(std::string_view name) const {
    return std::find(functions_.begin(), functions_.end(), name) != functions_.end();
}

bool ProbeRequests::asks_for(const std::string& text, const std::string& name) {
    return text == name || (text.find(':') != std::string::npos && matches(text, name));
}

std::string_view explain_probe(std::string_view full_name) {
    const auto* const known =
        std::find_if(kExplained.begin(), kExplained.end(),
                     [full_name](const auto& each) { return each.first == full_name; });
    return known != kExplained.end() ? known->second : std::string_view();
}

} // namespace memleax
