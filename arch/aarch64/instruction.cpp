// SPDX-License-Identifier: GPL-3.0-or-later
// Arm ARM, C4.1: bits 25 to 28 tell the group. Those that use the pc are in two of them: adr and
// adrp ("data processing, immediate"), literal loads ("loads and stores"); and the branches.
#include "instruction.hpp"

#include "decoder.hpp"
#include "flow.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

/// adr, adrp: the distance is immhi (bits 5 to 23) before immlo (29 and 30), in bytes or pages.
void read_address(Instruction& instruction, CodeAddr from) {
    constexpr unsigned kPageBits = 12;
    const std::uint32_t word = instruction.word;
    const std::int64_t distance = signed_field(word, 5, 19) * 4 + field(word, 29, 2);
    instruction.kind = Kind::address;
    instruction.rt = field(word, 0, 5);
    if (field(word, 31, 1) == 0) {
        instruction.target = from + distance;
    } else {
        const CodeAddr page(from.value() >> kPageBits << kPageBits);
        instruction.target = page + distance * (std::int64_t{1} << kPageBits);
    }
}

/// C4.1.94, "load register (literal)".
const char* read_literal_load(Instruction& instruction, CodeAddr from) {
    const std::uint32_t word = instruction.word;
    const std::uint32_t size = field(word, 30, 2);
    const bool is_vector = field(word, 26, 1) != 0;
    instruction.rt = field(word, 0, 5);
    instruction.target = from + signed_field(word, 5, 19) * 4;
    if (is_vector) {
        instruction.kind = Kind::load_vector;
        return size == 3 ? "unknown instruction" : nullptr;
    }
    instruction.kind = size == 3 ? Kind::prefetch : Kind::load;
    return nullptr;
}

/// pacm, paciasppc and its like sign with their own address, autiasppc authenticates with that of
/// another instruction (FEAT_PAuth_LR, Arm ARM C4.1.65 "hints", C4.1.92, C4.1.93).
bool signs_with_pc(std::uint32_t word) {
    constexpr std::uint32_t kPacm = 0xd50324ff;
    return word == kPacm || (word & 0xffff8000U) == 0xdac18000U || // by a register
           (word & 0xff800000U) == 0xf3800000U;                    // by a distance
}

const char* read(Instruction& instruction, CodeAddr from) {
    const std::uint32_t word = instruction.word;
    if (signs_with_pc(word)) {
        return "it signs a return address with its own";
    }
    if (is_in_flow_group(word)) {
        return read_flow(instruction, from);
    }
    switch (field(word, 25, 4)) {
    case 0b0000: // reserved (udf), SME
    case 0b0001:
    case 0b0011:
        return "unknown instruction";
    default:
        break;
    }
    if (field(word, 24, 5) == 0b10000) {
        read_address(instruction, from);
        return nullptr;
    }
    if (field(word, 27, 3) == 0b011 && field(word, 24, 2) == 0) {
        return read_literal_load(instruction, from);
    }
    return is_exclusive(word) ? "exclusive access" : nullptr;
}

} // namespace

Result<Instruction> decode_movable(CodeAddr from, std::span<const std::uint8_t> bytes) {
    const auto word = first_word(bytes);
    if (!word || from.value() % kInstructionBytes != 0) {
        return Error("no code");
    }
    Instruction instruction;
    instruction.word = *word;
    if (const char* reason = read(instruction, from)) {
        return Error(reason);
    }
    return instruction;
}

} // namespace aarch64
} // namespace memleax::arch
