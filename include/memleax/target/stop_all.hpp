// SPDX-License-Identifier: GPL-3.0-or-later
/// All threads of a process stand still at one moment, while it is being watched.
#pragma once

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// Stops all threads as Target::stop_and_defer() does one, and newborns with them. What stopped
/// each is put aside: as long as nobody asks next_event(), all stand still, and then each goes on
/// as after any stop. Since when the first may stand. EBUSY, EAGAIN: one is in a transfer that
/// would be cut short (ThreadBorrower::await_harmless_stop_of_all()); EAGAIN: one cannot be
/// stopped now, or the process is stopped by job control, or executes another program; ESRCH: it
/// has ended. Some are stopped then.
Result<MonotonicNs> stop_all_and_defer(Target& target);

} // namespace memleax
