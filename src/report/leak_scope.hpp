// SPDX-License-Identifier: GPL-3.0-or-later
/// How many of the processes a report's leak check has looked at. Their blocks can be told, even if
/// another process could not be looked at, as one that has ended.
#pragma once

#include <cstddef>
#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

struct LeakScope {
    std::size_t known = 0;     ///< processes whose heap was read whole
    std::size_t processes = 0; ///< all that were watched

    /// There is something to tell of blocks.
    [[nodiscard]] bool is_some() const { return known > 0; }
    [[nodiscard]] bool is_all() const { return known == processes; }
    /// "all 4 processes", "3 of 4 processes".
    [[nodiscard]] std::string text() const;
};

/// Nothing is known where nobody has looked.
LeakScope leak_scope(const Report& report);

} // namespace memleax
