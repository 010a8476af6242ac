// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "memleax/types.hpp"

namespace memleax {

/// Other processes that have the memory of this one for theirs: children made by vfork or
/// clone(CLONE_VM), at this moment. Their ids as processes; nothing where the kernel cannot tell
/// (kcmp(2)).
std::vector<Tid> processes_sharing_memory(Tid pid);

} // namespace memleax
