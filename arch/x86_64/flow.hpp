// SPDX-License-Identifier: GPL-3.0-or-later
/// Prefixes, and the few opcodes that change the flow of control, read byte by byte.
#pragma once

#include <cstdint>
#include <span>

#include "instruction.hpp"

namespace memleax::arch {
inline namespace x86_64 {

/// What stands before the opcode (or before VEX, EVEX and XOP, which hold it).
struct Prefixes {
    std::uint8_t length = 0;
    bool operand_size = false;
    bool address_size = false;
    bool rex_w = false;
};

[[nodiscard]] Prefixes scan_prefixes(std::span<const std::uint8_t> bytes);

/// Sets `flow` and `target` of an instruction whose bytes and opcode_at are set and which stands at
/// `from`. Null, or the reason why it must stay where it is.
[[nodiscard]] const char* read_flow(Instruction& instruction, const Prefixes& prefixes,
                                    CodeAddr from);

} // namespace x86_64
} // namespace memleax::arch
