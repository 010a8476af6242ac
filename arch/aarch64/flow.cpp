// SPDX-License-Identifier: GPL-3.0-or-later
// Arm ARM, C4.1.65, "Branches, Exception Generating and System instructions".
#include "flow.hpp"

#include "decoder.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

const char* relative(Instruction& instruction, Kind kind, CodeAddr from, unsigned lowest,
                     unsigned count) {
    instruction.kind = kind;
    instruction.target = from + signed_field(instruction.word, lowest, count) * kInstructionBytes;
    return nullptr;
}

/// br, blr, ret, and their forms with pointer authentication; eret and drps are the kernel's.
const char* read_register_branch(Instruction& instruction) {
    const std::uint32_t word = instruction.word;
    const std::uint32_t operation = field(word, 21, 4);
    if (field(word, 16, 5) != 0b11111) {
        return "unknown instruction";
    }
    switch (operation) {
    case 0b0000: // br
    case 0b0010: // ret, retaa
    case 0b1000: // braa with a modifier
        instruction.kind = Kind::elsewhere;
        return nullptr;
    case 0b0001: // blr
    case 0b1001: // blraa with a modifier
        instruction.kind = Kind::indirect_call;
        return nullptr;
    default:
        return "unknown instruction";
    }
}

} // namespace

bool is_in_flow_group(std::uint32_t word) {
    return field(word, 26, 3) == 0b101;
}

bool is_unknown_branch(std::uint32_t word) {
    Instruction instruction;
    instruction.word = word;
    const std::uint32_t top = field(word, 24, 8);
    return is_in_flow_group(word) && top != 0xd4 && top != 0xd6 && top != 0xd7 &&
           read_flow(instruction, CodeAddr()) != nullptr;
}

const char* read_flow(Instruction& instruction, CodeAddr from) {
    const std::uint32_t word = instruction.word;
    const std::uint32_t top = field(word, 24, 8);
    if (field(word, 26, 5) == 0b00101) {
        return relative(instruction, field(word, 31, 1) != 0 ? Kind::call : Kind::jump, from, 0,
                        26);
    }
    switch (top) {
    case 0x54: // b.cond, bc.cond
        return relative(instruction, Kind::branch, from, 5, 19);
    case 0x34: // cbz
    case 0x35: // cbnz
    case 0xb4:
    case 0xb5:
        return relative(instruction, Kind::branch, from, 5, 19);
    case 0x36: // tbz
    case 0x37: // tbnz
    case 0xb6:
    case 0xb7:
        return relative(instruction, Kind::branch, from, 5, 14);
    case 0xd6:
    case 0xd7:
        return read_register_branch(instruction);
    case 0xd4:
        return field(word, 21, 3) == 0 ? "system call instruction" : "breakpoint or halt";
    case 0xd5:
        // Hints (nop, bti, paciasp, ...), barriers, msr, mrs, sys: none asks where it stands.
        return nullptr;
    default:
        return "unknown instruction";
    }
}

} // namespace aarch64
} // namespace memleax::arch
