// SPDX-License-Identifier: GPL-3.0-or-later
/// What a control group's files say of its memory.
#pragma once

#include "control_group.hpp"
#include "memleax/proc/memory_look.hpp"

namespace memleax {

/// Of the group whose limit is next on the way up from here; without a folder if none of them
/// counts memory. `pressure` is not read: it may be another hierarchy's.
GroupMemory read_group_memory(const ControlGroup& own);

/// Version 1 writes "no limit" as the largest number of whole pages in 63 bits.
inline constexpr std::uint64_t kNoMemoryLimit = std::uint64_t{1} << 62;

/// Is it the root of its hierarchy, and not just of what we see of it? The root's memory is the
/// machine's.
bool is_root_group(const ControlGroup& group);

} // namespace memleax
