// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// What a thread has executed, in clock ticks (sysconf(3)): fields 14 and 15 of /proc/TID/stat. The
/// sum is exact; how much of it was the user's, the kernel reckons by the few moments at which a
/// tick of its own has found the thread (cputime_adjust() in kernel/sched/cputime.c).
struct ExecutedTicks {
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    [[nodiscard]] std::uint64_t sum() const { return user + system; }
};

} // namespace memleax
