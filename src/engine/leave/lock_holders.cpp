// SPDX-License-Identifier: GPL-3.0-or-later
#include "lock_holders.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <sys/syscall.h>

#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

bool may_be_allocators(long system_call) {
    constexpr std::array kCalls{
        SYS_futex,  SYS_nanosleep, SYS_clock_nanosleep, SYS_mmap,     SYS_munmap,
        SYS_mremap, SYS_brk,       SYS_madvise,         SYS_mprotect, SYS_sched_yield};
    return std::find(kCalls.begin(), kCalls.end(), system_call) != kCalls.end();
}

bool LockHolders::may_be(Tid tid) {
    if (!std::exchange(is_known_, true)) {
        find_code();
    }
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    return kernel && (!kernel->system_call || may_be_allocators(*kernel->system_call)) &&
           std::any_of(code_.begin(), code_.end(),
                       [&](const AddrRange& range) { return range.contains(kernel->pc.value()); });
}

void LockHolders::find_code() {
    const auto maps = read_maps(target_.pid());
    if (!maps) {
        return;
    }
    const std::vector<Breakpoint*> breakpoints = breakpoints_.all();
    for (const Mapping& mapping : *maps) {
        if (std::any_of(breakpoints.begin(), breakpoints.end(), [&](const Breakpoint* breakpoint) {
                return mapping.range.contains(breakpoint->place().value());
            })) {
            code_.push_back(mapping.range);
        }
    }
}

} // namespace memleax
