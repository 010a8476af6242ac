// SPDX-License-Identifier: GPL-3.0-or-later
/// One step of a walk: what it came to.
#pragma once

#include <cstdint>

#include "memleax/events/allocation_event.hpp"

namespace memleax {

struct Step {
    enum class Kind : std::uint8_t {
        called,      ///< caller_pc is a return address
        interrupted, ///< caller_pc was executing when a signal came
        guessed,     ///< as `called`, but by frame pointers in code without tables
        end,         ///< no further; `reason` says why
        needs_rows   ///< the caller cannot be found without all registers
    };
    Kind kind = Kind::end;
    StackEnd reason = StackEnd::outermost;
    std::uint64_t caller_pc = 0;

    static constexpr Step to(Kind kind, std::uint64_t pc) { return {kind, {}, pc}; }
    static constexpr Step stop(StackEnd reason) { return {Kind::end, reason, 0}; }
};

} // namespace memleax
