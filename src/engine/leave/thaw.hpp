// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/base/types.hpp"

namespace memleax {

/// A frozen process (freezer.hpp) has its own code back, and nobody in it can execute anything; who
/// is in a slot, or executes a system call for us, cannot be moved out. Waits until it is thawed or
/// killed, and tells the user so. Should we be killed meanwhile, the guardian waits in our place.
void await_thaw(Tid pid);

} // namespace memleax
