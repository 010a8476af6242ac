// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// Has this child the memory of that process for its own, at this moment? Where the kernel cannot
/// tell (no CONFIG_KCMP) it is taken for a copy, with a warning: then breakpoints are taken out of
/// a memory that is shared, allocations are missed, and nothing breaks.
bool shares_memory(Tid pid, Tid child);

/// Other processes that have the memory of this one for theirs: children made by vfork or
/// clone(CLONE_VM), at this moment. Their ids as processes; nothing where the kernel cannot tell
/// (kcmp(2)).
std::vector<Tid> processes_sharing_memory(Tid pid);

} // namespace memleax
