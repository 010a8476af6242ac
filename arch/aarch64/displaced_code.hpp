// SPDX-License-Identifier: GPL-3.0-or-later
/// An instruction's code in a slot.
#pragma once

#include <cstdint>

#include "instruction.hpp"
#include "slot_writer.hpp"

namespace memleax::arch {
inline namespace aarch64 {

/// What comes in the slot behind an instruction after which the next one is executed.
enum class Behind : std::uint8_t {
    way_back, ///< to where the next one is in the original code
    next      ///< the code of the next one
};

/// Null, or why it cannot be moved. Whether it reaches its targets, the writer says.
const char* write_displaced(SlotWriter& writer, const Instruction& instruction, CodeAddr from,
                            Behind behind);

} // namespace aarch64
} // namespace memleax::arch
