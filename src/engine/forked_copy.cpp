// SPDX-License-Identifier: GPL-3.0-or-later
#include "forked_copy.hpp"

#include "memleax/log.hpp"

namespace memleax {

void let_go_of_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal,
                    Tid child) {
    const auto restored = breakpoints.restore_in_copy(child);
    if (!restored) {
        log_debug("child {}: {}", child.value(), restored.error().message());
    }
    trap_signal.restore_in_copy(child);
    target.detach(child);
}

} // namespace memleax
