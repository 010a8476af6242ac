// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>

#include "memleax/base/types.hpp"

namespace memleax {

/// A frozen process (freezer.hpp) has its own code back, and nobody in it can execute anything; who
/// is in a slot, or executes a system call for us, cannot be moved out. Waits until it is thawed or
/// killed, and tells the user so; does `meanwhile` every 20 ms. Should we be killed, the guardian
/// waits in our place.
void await_thaw(Tid pid, const std::function<void()>& meanwhile);

} // namespace memleax
