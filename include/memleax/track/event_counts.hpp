// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// Calls, by what they did.
struct EventCounts {
    std::uint64_t alloc = 0;        ///< began a block where there was none
    std::uint64_t free = 0;         ///< ended a block that we knew (realloc to size 0 included)
    std::uint64_t realloc = 0;      ///< replaced a block
    std::uint64_t failed_alloc = 0; ///< returned null, or an error
    std::uint64_t unfollowed_alloc =
        0;                          ///< nobody knows what they returned: EventKind::unseen_alloc
    std::uint64_t unknown_free = 0; ///< of a block from before the attach, or that we do not know
    std::uint64_t double_free =
        0; ///< of a block that was live, was freed, and was not given out again
    std::uint64_t invalid_free = 0;    ///< of what is no block, and never was one (--check)
    std::uint64_t mismatched_free = 0; ///< counted above, too: by the wrong function (--check)

    [[nodiscard]] std::uint64_t all() const {
        return alloc + free + realloc + failed_alloc + unfollowed_alloc + unknown_free +
               double_free + invalid_free;
    }
};

} // namespace memleax
