// SPDX-License-Identifier: GPL-3.0-or-later
/// When a report is to be saved before the end: what memory is used, or how long tasks wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/base/types.hpp"
#include "memleax/proc/pressure_trigger.hpp"

namespace memleax {

/// Of --at-memory.
struct MemoryThreshold {
    std::string text; ///< as the user has written it
    /// Of the limit of the process's control group, else of the machine's memory: what is used; 0
    /// to 1.
    std::optional<double> share;
    std::uint64_t rss_bytes = 0; ///< ... or of the process
};

/// Of --at-pressure.
struct PressureThreshold {
    std::string text;
    StallThreshold stall;
};

/// One was passed.
struct ThresholdPassed {
    enum class Kind : std::uint8_t { memory, pressure };
    Kind kind = Kind::memory;
    Tid pid;         ///< of the process, or one of the group
    std::string why; ///< "RSS of process 4711 reached 2.0 GiB (--at-memory 2G)"
};

} // namespace memleax
