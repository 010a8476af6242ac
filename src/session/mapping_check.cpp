// SPDX-License-Identifier: GPL-3.0-or-later
#include "mapping_check.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <unistd.h>

#include "memleax/proc/modules.hpp"

namespace memleax {

namespace {

/// Would we have seen the call that has made this, if it was made through the C library while we
/// watched? Not so the dynamic linker's mappings of files, and our own pages, which are code.
bool is_followed(const Mapping& mapping, const TrackedMemory& tracked) {
    if (mapping.executable) {
        return false;
    }
    if (mapping.path == "[heap]") {
        return tracked.brk;
    }
    if (mapping.path.starts_with("/SYSV")) {
        return tracked.shm;
    }
    return tracked.mmap && (mapping.path.empty() || mapping.path.starts_with("[anon") ||
                            mapping.path == "/dev/zero"); // shared, and of no file
}

} // namespace

void look_at_mappings(const ProcessAccounts& processes, const TrackedMemory& tracked) {
    const auto page_size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    for (ProcessAccount* process : processes.all()) {
        const auto maps = process->facts().ended ? Result<std::vector<Mapping>>(Error("ended"))
                                                 : read_maps(process->pid());
        if (!maps) {
            continue;
        }
        const auto& modules = process->names().modules();
        std::uint64_t bytes = 0;
        for (const Mapping& mapping : *maps) {
            const bool is_modules = // its .bss
                std::any_of(modules.begin(), modules.end(), [&mapping](const auto& module) {
                    return !module->unloaded && module->range.contains(mapping.range.begin);
                });
            if (!is_modules && is_followed(mapping, tracked)) {
                bytes += process->tracker().with([&](Tracker& tracker) {
                    return tracker.unexplained(mapping.range, page_size);
                });
            }
        }
        process->set_unexplained(bytes);
    }
}

} // namespace memleax
