// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/process_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/meminfo.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

namespace {

std::string proc_path(Tid pid, const char* file) {
    return fmt::format("/proc/{}/{}", living_thread(pid).value(), file);
}

/// Lines are "Rss:    1234 kB"; the first is the range that was rolled up.
void read_smaps_rollup(Tid pid, ProcessMemory* memory) {
    const auto text = try_read_proc_file(proc_path(pid, "smaps_rollup"));
    if (!text) {
        return;
    }
    constexpr std::uint64_t kKib = 1024;
    const auto add = [](std::optional<std::uint64_t>& sum, std::uint64_t value) {
        sum = sum.value_or(0) + value;
    };
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const auto parts = words_of(line);
        const auto kib = parts.size() == 3 ? leading_number(parts[1]) : std::nullopt;
        if (!kib) {
            continue;
        }
        const std::string_view name = parts[0];
        const std::uint64_t bytes = *kib * kKib;
        if (name == "Rss:") {
            memory->rss = bytes;
        } else if (name == "Pss:") {
            memory->pss = bytes;
        } else if (name == "Private_Clean:" || name == "Private_Dirty:") {
            add(memory->private_bytes, bytes);
        } else if (name == "Shared_Clean:" || name == "Shared_Dirty:") {
            add(memory->shared, bytes);
        } else if (name == "Swap:") {
            memory->swap = bytes;
        }
    }
}

/// A field of /proc/PID/statm, which counts in pages; in bytes.
std::optional<std::uint64_t> try_read_statm(Tid pid, std::size_t field) {
    const auto text = try_read_proc_file(proc_path(pid, "statm"));
    const auto fields = text ? words_of(*text) : std::vector<std::string_view>{};
    const auto pages = fields.size() > field ? leading_number(fields[field]) : std::nullopt;
    if (!pages) {
        return std::nullopt;
    }
    return *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

std::uint64_t available_memory() {
    const std::uint64_t available = read_meminfo().available.value_or(0);
    const GroupMemory group = read_group_memory(Tid(getpid()));
    if (!group.limit) {
        return available;
    }
    return std::min(available, *group.limit - std::min(*group.limit, group.current.value_or(0)));
}

std::optional<std::uint64_t> try_read_resident_bytes(Tid pid) {
    return try_read_statm(pid, 1);
}

std::optional<std::uint64_t> try_read_address_space_left(Tid pid) {
    rlimit limit{};
    if (prlimit(pid.value(), RLIMIT_AS, nullptr, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    const auto size = try_read_statm(pid, 0);
    return size ? std::optional(limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, *size))
                : std::nullopt;
}

std::optional<std::uint64_t> parse_written_bytes(std::string_view status) {
    const auto anonymous = named_kib(status, "RssAnon:");
    if (!anonymous) {
        return std::nullopt;
    }
    return *anonymous + named_kib(status, "VmSwap:").value_or(0) +
           named_kib(status, "VmPTE:").value_or(0);
}

std::optional<std::uint64_t> try_read_written_bytes(Tid pid) {
    const auto status = try_read_proc_file(proc_path(pid, "status"));
    return status ? parse_written_bytes(*status) : std::nullopt;
}

std::optional<std::uint64_t> try_read_swapped_bytes(Tid pid) {
    const auto status = try_read_proc_file(proc_path(pid, "status"));
    return status ? named_kib(*status, "VmSwap:") : std::nullopt;
}

std::optional<ResidentMemory> try_read_resident_memory(Tid pid) {
    const auto text = try_read_proc_file(proc_path(pid, "smaps_rollup"));
    const auto rss = text ? named_kib(*text, "Rss:") : std::nullopt;
    if (!rss) {
        return std::nullopt;
    }
    const auto bytes = [&text](const char* name) { return named_kib(*text, name).value_or(0); };
    return ResidentMemory{.rss = *rss,
                          .anonymous = bytes("Anonymous:"),
                          .huge = bytes("AnonHugePages:") + bytes("ShmemPmdMapped:") +
                                  bytes("FilePmdMapped:"),
                          .lazy_free = bytes("LazyFree:"),
                          .swap = bytes("Swap:"),
                          .own = 0};
}

ProcessMemory read_process_memory(Tid pid) {
    ProcessMemory memory;
    read_smaps_rollup(pid, &memory);
    if (!memory.rss) { // no right to look at the pages themselves
        memory.rss = try_read_resident_bytes(pid);
    }
    return memory;
}

} // namespace memleax
