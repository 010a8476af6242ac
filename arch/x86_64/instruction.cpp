// SPDX-License-Identifier: GPL-3.0-or-later
// Capstone tells an instruction's length and operands; prefixes and the few opcodes that change the
// flow of control are looked at here, byte by byte (Intel SDM volume 2, chapter 2 and appendix A),
// because capstone 4 is wrong about some of them: with an operand size prefix it gives rel32 and
// disp32 two bytes. What it says is believed only where both agree.
#include "instruction.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "decoder.hpp"
#include "flow.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

bool changes_flow(const cs_detail& detail) {
    const std::span groups(detail.groups, detail.groups_count);
    return std::any_of(groups.begin(), groups.end(), [](unsigned group) {
        return group == X86_GRP_JUMP || group == X86_GRP_CALL || group == X86_GRP_RET ||
               group == X86_GRP_INT || group == X86_GRP_IRET || group == X86_GRP_BRANCH_RELATIVE;
    });
}

/// Finds the RIP-relative operand: mod = 00, rm = 101 (SDM volume 2, table 2-7). A text if capstone
/// takes the operands for something else.
const char* find_rip_operand(Instruction& instruction, const cs_x86& x86, CodeAddr from) {
    bool has_rip = false;
    std::int64_t displacement = 0;
    for (unsigned i = 0; i < x86.op_count; ++i) {
        const cs_x86_op& operand = x86.operands[i];
        if (operand.type != X86_OP_MEM) {
            continue;
        }
        if (operand.mem.base == X86_REG_EIP) {
            return "operand relative to eip";
        }
        if (operand.mem.base == X86_REG_RIP) {
            has_rip = true;
            displacement = operand.mem.disp;
        }
    }
    const std::uint8_t modrm_at = x86.encoding.modrm_offset;
    const bool looks_so = modrm_at != 0 && (instruction.bytes[modrm_at] & 0xc7) == 0x05;
    if (!has_rip && !looks_so) {
        return nullptr;
    }
    const std::uint8_t at = modrm_at + 1;
    if (!has_rip || !looks_so || at + 4 > instruction.length) {
        return "unclear encoding";
    }
    std::int32_t value = 0;
    std::memcpy(&value, &instruction.bytes[at], sizeof value);
    if (value != displacement) {
        return "unclear encoding";
    }
    instruction.rip_displacement_at = at;
    instruction.rip_operand = from + instruction.length + value;
    return nullptr;
}

bool may_fault(const cs_insn& decoded) {
    if (decoded.id == X86_INS_LEA || decoded.id == X86_INS_NOP) {
        return false;
    }
    const cs_x86& x86 = decoded.detail->x86;
    return std::any_of(x86.operands, x86.operands + x86.op_count, [](const cs_x86_op& operand) {
        return operand.type == X86_OP_MEM && operand.mem.base != X86_REG_RSP &&
               operand.mem.base != X86_REG_RBP && operand.mem.base != X86_REG_RIP &&
               operand.mem.segment != X86_REG_FS;
    });
}

/// rdsspd, rdsspq: read the shadow stack's pointer, or do nothing. Newer than capstone 4.
bool is_read_shadow_stack_pointer(std::span<const std::uint8_t> bytes, const Prefixes& prefixes) {
    const auto opcode = bytes.subspan(prefixes.length);
    return bytes[0] == 0xf3 && prefixes.length <= 2 && opcode.size() >= 3 && opcode[0] == 0x0f &&
           opcode[1] == 0x1e && (opcode[2] & 0xf8) == 0xc8;
}

} // namespace

Result<Instruction> decode_movable(CodeAddr from, std::span<const std::uint8_t> bytes) {
    bytes = bytes.first(std::min(bytes.size(), kMaxInstructionBytes));
    if (bytes.empty()) {
        return Error("no code");
    }
    const Prefixes prefixes = scan_prefixes(bytes);
    Instruction instruction;
    instruction.opcode_at = prefixes.length;

    static thread_local Decoder decoder;
    const cs_insn* decoded = decoder.decode(from.value(), std::as_bytes(bytes));
    if (decoded == nullptr && is_read_shadow_stack_pointer(bytes, prefixes)) {
        instruction.length = prefixes.length + 3;
        std::memcpy(instruction.bytes.data(), bytes.data(), instruction.length);
        return instruction;
    }
    if (decoded == nullptr) {
        return Error("unknown instruction");
    }
    instruction.length = static_cast<std::uint8_t>(decoded->size);
    std::memcpy(instruction.bytes.data(), bytes.data(), instruction.length);

    instruction.may_fault = may_fault(*decoded);
    const char* reason = read_flow(instruction, prefixes, from);
    if (reason == nullptr && instruction.flow == Flow::next && changes_flow(*decoded->detail)) {
        reason = "unclear encoding"; // capstone knows better
    }
    if (reason == nullptr) {
        reason = find_rip_operand(instruction, decoded->detail->x86, from);
    }
    if (reason == nullptr && instruction.flow == Flow::indirect_call && prefixes.address_size) {
        reason = "call with a 32-bit address";
    }
    if (reason != nullptr) {
        return Error(reason);
    }
    return instruction;
}

Result<Instruction> moved_to(Instruction instruction, CodeAddr place) {
    if (instruction.rip_displacement_at) {
        const std::int64_t distance = instruction.rip_operand - (place + instruction.length);
        if (distance < std::numeric_limits<std::int32_t>::min() ||
            distance > std::numeric_limits<std::int32_t>::max()) {
            return Error("operand out of reach");
        }
        const auto displacement = static_cast<std::int32_t>(distance);
        std::memcpy(&instruction.bytes[*instruction.rip_displacement_at], &displacement,
                    sizeof displacement);
    }
    return instruction;
}

std::size_t instruction_length(CodeAddr from, std::span<const std::uint8_t> bytes) {
    bytes = bytes.first(std::min(bytes.size(), kMaxInstructionBytes));
    static thread_local Decoder decoder;
    const cs_insn* decoded =
        bytes.empty() ? nullptr : decoder.decode(from.value(), std::as_bytes(bytes));
    return decoded != nullptr ? decoded->size : 0;
}

} // namespace x86_64
} // namespace memleax::arch
