// SPDX-License-Identifier: GPL-3.0-or-later
/// Is it the process's control group that is short of memory, or the machine, or nobody?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/proc/memory_look.hpp"

namespace memleax {

struct MemoryShortage {
    enum class Whose : std::uint8_t { nobodys, groups, machines, not_known };
    Whose whose = Whose::not_known;
    /// "the group is full: 98% of 512.0 MiB used, 3 times at its limit since the attach; this
    /// process has 71% of what is used"
    std::string text;

    [[nodiscard]] bool is_short() const {
        return whose == Whose::groups || whose == Whose::machines;
    }
};

/// The group comes first: what is done to a process because of its group happens on a machine that
/// has memory for all others. File cache that nobody uses is not counted: any group that reads
/// files fills up with it.
MemoryShortage shortage_of(const MemoryLooks& looks);

/// By how much a counter has grown; absent if one of them is.
std::optional<std::uint64_t> growth_of(const std::optional<std::uint64_t>& before,
                                       const std::optional<std::uint64_t>& now);

} // namespace memleax
