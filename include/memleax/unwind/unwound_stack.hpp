// SPDX-License-Identifier: GPL-3.0-or-later
/// What a walk has found.
#pragma once

#include <cstddef>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"

namespace memleax {

/// A call stack, innermost frame first. Reused between calls so that no walk allocates.
struct UnwoundStack {
    std::vector<FrameAddress> frames;
    StackEnd end = StackEnd::outermost;
    /// A signal handler's frame was crossed on the way out.
    bool crossed_signal_frame = false;
    /// Between the frame before this one and this one lies a frame of ours, the last of them; 0:
    /// none. It is not among `frames`, as it is not the program's.
    std::size_t behind_own_frame = 0;
    /// A signal came as a call had just returned to a frame of ours.
    bool interrupted_own_frame = false;
    /// StackEnd::no_rule: what the frame pointer leads to is no code that we know of. It may be
    /// newer.
    bool guess_led_nowhere = false;
    /// Of such an end, and of StackEnd::not_code: what was no return address.
    std::uint64_t no_code = 0;
};

} // namespace memleax
