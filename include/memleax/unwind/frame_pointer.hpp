// SPDX-License-Identifier: GPL-3.0-or-later
/// The search for a caller in code without tables. The agent, which runs within the target, does
/// the same: nothing here may call anything.
#pragma once

#include <cstdint>

namespace memleax {

/// How far such a frame may reach from sp: the search is a guess, so it is kept near.
inline constexpr std::uint64_t kFramePointerReach = std::uint64_t{1024} * 1024;

/// Is this where a frame pointer would point? `sp` is the frame's own.
[[gnu::always_inline]] constexpr bool is_plausible_frame_pointer(std::uint64_t fp,
                                                                 std::uint64_t sp) {
    return fp % sizeof(std::uint64_t) == 0 && fp >= sp && fp - sp < kFramePointerReach;
}

} // namespace memleax
