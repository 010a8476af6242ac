// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "glibc_places.hpp"
#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/proc/modules.hpp"
#include "thread_view.hpp"

namespace memleax {

/// glibc's. While a thread has an arena locked, blocks may be in nobody's list. Threads that are in
/// malloc run on for a moment, again and again, until none has; the others stand still meanwhile. A
/// process with a single thread takes no locks, and runs until it is out of malloc. Returns all
/// threads, or none if that takes longer than a second.
Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process, const GlibcPlaces& places,
                                             const ModuleMap& modules);

} // namespace memleax
