// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memleax {

/// Roots that belong together: a variable, a thread's stack. `groups` has a number for each root of
/// a graph, from 0 to `count` - 1; those that `last` names (stacks, registers) count only where no
/// other leads.
struct RootGroups {
    std::size_t count = 0;
    std::vector<std::uint32_t> groups; ///< by root
    std::vector<bool> last;            ///< by group
};

/// In the place of a group's number.
inline constexpr std::uint32_t kNoGroup = 0xffffffff;

} // namespace memleax
