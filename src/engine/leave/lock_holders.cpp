// SPDX-License-Identifier: GPL-3.0-or-later
#include "lock_holders.hpp"

#include <algorithm>

#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"

namespace memleax {

bool LockHolders::may_be(Tid tid) {
    if (!code_) {
        code_ = find_code();
    }
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    return kernel && (!kernel->system_call || may_be_allocators(*kernel->system_call)) &&
           std::any_of(code_->begin(), code_->end(),
                       [&](const AddrRange& range) { return range.contains(kernel->pc.value()); });
}

// Functions that may begin with a jump: what those inside have come by. Other breakpoints are where
// calls return to, in code of whoever calls.
std::vector<AddrRange> LockHolders::find_code() const {
    std::vector<AddrRange> code;
    const auto maps = read_maps(target_.pid());
    if (!maps) {
        return code;
    }
    const std::vector<Breakpoint*> breakpoints = breakpoints_.all();
    for (const Mapping& mapping : *maps) {
        if (std::any_of(breakpoints.begin(), breakpoints.end(), [&](const Breakpoint* breakpoint) {
                return breakpoint->takes_jump &&
                       mapping.range.contains(breakpoint->place().value());
            })) {
            code.push_back(mapping.range);
        }
    }
    return code;
}

} // namespace memleax
