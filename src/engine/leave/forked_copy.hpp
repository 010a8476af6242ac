// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_signal.hpp"

namespace memleax {

/// A forked child, stopped at its birth, has a copy of what was the target's at that moment: takes
/// out of it what is ours; but for our pages, if a signal frame may refer to one.
void clean_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal, Tid child,
                bool pages_are_referred_to);

} // namespace memleax
