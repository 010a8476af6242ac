// SPDX-License-Identifier: GPL-3.0-or-later
/// A process whose first thread has ended (pthread_exit in main) lives on in its others, but what
/// /proc tells under its own number is that thread's: no maps, no mem, no exe, no root.
#pragma once

#include "memleax/base/types.hpp"

namespace memleax {

/// Has this thread any, now? Once it has none it is on its way to its end. True if we may not look.
[[nodiscard]] bool has_memory(Tid tid);

/// The thread to ask in /proc about the process's memory and files: the first one as long as it has
/// any, else one of the others; /proc/TID is there for each. `pid` itself if there is none, or if
/// we may not look.
[[nodiscard]] Tid living_thread(Tid pid);

} // namespace memleax
