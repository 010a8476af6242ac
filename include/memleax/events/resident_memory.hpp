// SPDX-License-Identifier: GPL-3.0-or-later
/// What the kernel says of the pages that a process has in memory.
#pragma once

#include <cstdint>

namespace memleax {

/// /proc/PID/smaps_rollup (proc(5)), in bytes. A page that is only read, and was never written to,
/// is the kernel's zero page: it counts nowhere.
struct ResidentMemory {
    std::uint64_t rss = 0;
    std::uint64_t anonymous = 0; ///< no file's, or a private copy of a file's page
    std::uint64_t huge = 0;      ///< in huge pages, of any kind
    std::uint64_t lazy_free = 0; ///< given back by MADV_FREE, and not taken yet
    std::uint64_t swap = 0;      ///< not in memory
    std::uint64_t own = 0;       ///< part of rss: pages of memleax in the process

    friend bool operator==(const ResidentMemory&, const ResidentMemory&) = default;
};

ResidentMemory operator+(const ResidentMemory& a, const ResidentMemory& b);

} // namespace memleax
