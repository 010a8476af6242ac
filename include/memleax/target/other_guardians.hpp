// SPDX-License-Identifier: GPL-3.0-or-later
/// The guardians of other memleaxes, which put processes back after these were killed.
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

/// check_watchable(), and then waits until nobody's guardian has this process in its record any
/// more: what it is about to put back must not be taken for the process's own. Where one has it for
/// longer than 5 s, stopped perhaps, that is an error (EBUSY).
Result<ProcessInfo> check_free(Tid pid);

} // namespace memleax
