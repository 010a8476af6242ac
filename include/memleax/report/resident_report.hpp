// SPDX-License-Identifier: GPL-3.0-or-later
/// The pages that are still there: by our account, and by the kernel's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/events/resident_memory.hpp"

namespace memleax {

/// Of one process, or of several. In bytes, but for `untold`.
struct ResidentReport {
    std::uint64_t ours = 0;   ///< of call stacks
    std::uint64_t untold = 0; ///< pages for which the account had no room: they are not in `ours`
    std::uint64_t lost = 0;   ///< faults whose samples were lost: nor are their pages
    std::optional<ResidentMemory> before; ///< when the watching began
    std::optional<ResidentMemory> kernel; ///< now, or when it ended; absent if the process did

    /// What the kernel has beyond what was there before and what came in since by our account;
    /// memleax's own pages are in neither.
    [[nodiscard]] std::optional<std::int64_t> difference() const;
};

/// The kernel's figures only if both have them: else their sum is of another whole.
ResidentReport operator+(const ResidentReport& a, const ResidentReport& b);

/// One sentence, and what explains the difference.
std::string resident_text(const ResidentReport& resident);

} // namespace memleax
