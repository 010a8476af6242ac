// SPDX-License-Identifier: GPL-3.0-or-later
/// The guardians of other memleaxes, which put processes back after these were killed.
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Waits until nobody's guardian has this process in its record any more: what it is about to put
/// back must not be taken for the process's own. Where one has it for longer than 5 s, stopped
/// perhaps, that is an error (EBUSY). To be called before the process is seized.
Result<void> await_other_guardians(Tid pid);

} // namespace memleax
