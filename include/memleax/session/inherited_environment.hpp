// SPDX-License-Identifier: GPL-3.0-or-later
/// The environment that memleax was started with. What the dynamic linker is told there to put into
/// programs (LD_PRELOAD, LD_AUDIT) is meant for the command, or for all that the user starts, and
/// may be an allocator that memleax does not get along with: memleax runs without.
#pragma once

#include <string>
#include <vector>

namespace memleax {

/// To be called first of all. If something was put into this process, it executes itself anew
/// without, with the same arguments, and what was meant for the command under other names. Goes on
/// as it is where that cannot be done.
void execute_without_preloads(char** argv);

/// Of a process that has come so far: the environment as the user gave it, in its order. Our own
/// loses the other names.
std::vector<std::string> take_inherited_environment();

} // namespace memleax
