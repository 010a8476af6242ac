// SPDX-License-Identifier: GPL-3.0-or-later
/// How much memory a process has (proc(5)); memory_look.hpp has what stands in its way.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "memleax/base/types.hpp"
#include "memleax/events/resident_memory.hpp"

namespace memleax {

/// Resident set size in bytes, from /proc/PID/statm: counters, the same cost for a process of any
/// size. Nothing if the process is gone.
std::optional<std::uint64_t> try_read_resident_bytes(Tid pid);

/// What it has of its own, in bytes: pages that it has written to of private mappings, in memory or
/// swapped out, and its page tables; from counters in /proc/PID/status. So much more it may need at
/// most while there is a copy of it. Nothing if the process is gone.
std::optional<std::uint64_t> try_read_written_bytes(Tid pid);
/// The same from that file's text; before Linux 4.5 nothing, as it has no RssAnon.
std::optional<std::uint64_t> parse_written_bytes(std::string_view status);

/// What of its private memory is swapped out, in bytes (VmSwap of the same file).
std::optional<std::uint64_t> try_read_swapped_bytes(Tid pid);

/// How much it may yet map, in bytes, until its calls fail (RLIMIT_AS, setrlimit(2)). Nothing if
/// that is not limited, or not known.
std::optional<std::uint64_t> try_read_address_space_left(Tid pid);

/// In bytes. What could not be read is absent.
struct ProcessMemory {
    std::optional<std::uint64_t> rss;
    std::optional<std::uint64_t> pss;           ///< proportional: shared pages by their users
    std::optional<std::uint64_t> private_bytes; ///< what would be free if the process ended
    std::optional<std::uint64_t> shared;
    std::optional<std::uint64_t> swap;
};

/// /proc/PID/smaps_rollup makes the kernel walk the page tables: milliseconds for a large process,
/// which can wait for them in its next mmap. So only when somebody asks.
ProcessMemory read_process_memory(Tid pid);

/// The same file, without `own`; nothing if it cannot be read.
std::optional<ResidentMemory> try_read_resident_memory(Tid pid);

/// What we could take before somebody is killed for it, here or in a control group that we are in;
/// 0 if that is not known.
std::uint64_t available_memory();

} // namespace memleax
