// SPDX-License-Identifier: GPL-3.0-or-later
// Instructions moved into a slot. What each kind becomes there (`next` follows it in the original
// code):
//
//      position-independent    the same bytes; jmp next
//      d(%rip) operand         the same with d for the new place; jmp next
//      jmp target              jmp target
//      jcc, loop, jrcxz        jcc taken; jmp next; taken: jmp target
//      call target             push next, as a call does; jmp target
//      call *%reg, call *mem   push next; jmp *%reg, jmp *mem
//      jmp *..., ret           the same
//
// Known differences that no program is known to see: an x87 instruction's address, as fnstenv gives
// it, is the slot's; a fault of the instruction happens in the slot (the points lead back). With
// a user shadow stack (arch_prctl ARCH_SHSTK_ENABLE, Linux 6.6) a pushed return address would fault
// at its `ret`; glibc before 2.39 never enables one, and a call is no function's first instruction.
#include <cstdint>
#include <cstring>

#include "instruction.hpp"
#include "slot_writer.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

constexpr std::int8_t kPushed = 8; ///< what a call takes off the stack pointer

/// Makes `call *operand` a `jmp *operand`, to be executed when the return address was pushed: an
/// operand relative to rsp lies 8 bytes further up then.
Result<Instruction> jump_after_push(Instruction call) {
    constexpr unsigned kCallToJump = 0x30; // ff /2 -> ff /4, in ModRM's middle bits
    constexpr unsigned kRsp = 4;           // as rm of a register operand, and as base in a SIB byte
    const std::size_t modrm_at = call.opcode_at + 1U;
    const unsigned modrm = call.bytes[modrm_at];
    const unsigned mod = modrm >> 6U;
    const unsigned rm = modrm & 7U;
    const unsigned prefix = call.opcode_at > 0 ? call.bytes[call.opcode_at - 1U] : 0;
    const bool rex_b = (prefix & 0xf1U) == 0x41U; // r8 to r15 as base: rm = 4 is r12 then
    call.bytes[modrm_at] = static_cast<std::uint8_t>(modrm ^ kCallToJump);

    if (mod == 3) {
        if (rm == kRsp && !rex_b) {
            return Error("call through the stack pointer");
        }
        return call;
    }
    const std::size_t sib_at = modrm_at + 1;
    if (rm != kRsp || (call.bytes[sib_at] & 7U) != kRsp || rex_b) {
        return call; // not based on rsp, which is never an index
    }
    const std::size_t displacement_at = sib_at + 1;
    std::int32_t displacement = 0;
    if (mod == 1) {
        // Sign-extended, as the CPU does. NOLINTNEXTLINE(bugprone-signed-char-misuse)
        displacement = static_cast<std::int8_t>(call.bytes[displacement_at]);
    } else if (mod == 2) {
        std::memcpy(&displacement, &call.bytes[displacement_at], sizeof displacement);
    }
    if (displacement < 0 || displacement > INT32_MAX - kPushed) {
        return Error("call through memory below the stack pointer"); // the push may overwrite it
    }
    displacement += kPushed;
    const bool is_short = displacement <= INT8_MAX;
    call.bytes[modrm_at] =
        static_cast<std::uint8_t>((call.bytes[modrm_at] & 0x3fU) | (is_short ? 0x40U : 0x80U));
    if (displacement_at + sizeof displacement > call.bytes.size()) {
        return Error("too many prefixes");
    }
    std::memcpy(&call.bytes[displacement_at], &displacement, sizeof displacement);
    call.length = static_cast<std::uint8_t>(displacement_at + (is_short ? 1 : 4));
    return call;
}

/// Pushes the return address as the call at `from` does: one word, no register, no flag.
void push_return_address(SlotWriter& writer, CodeAddr from, CodeAddr return_address) {
    const std::uint64_t value = return_address.value();
    const auto low = static_cast<std::uint32_t>(value);
    const auto high = static_cast<std::uint32_t>(value >> 32U);
    writer.point(from);
    writer.bytes({0x68}); // push $low, sign-extended
    writer.word32(low);
    if (high != (low >> 31U != 0 ? 0xffffffffU : 0U)) {
        writer.point(from, kPushed);
        writer.bytes({0xc7, 0x44, 0x24, 0x04}); // movl $high,4(%rsp)
        writer.word32(high);
    }
}

/// The conditional branch, then both ways: the next instruction, and behind that the target.
void write_branch(SlotWriter& writer, const Instruction& branch, CodeAddr next) {
    for (std::uint8_t i = 0; i < branch.opcode_at; ++i) {
        if (branch.bytes[i] == 0x67) {
            writer.bytes({0x67}); // loop and jrcxz with ecx; the other prefixes are hints
        }
    }
    const std::uint8_t opcode = branch.bytes[branch.opcode_at];
    if (opcode == 0x0f) {
        const unsigned condition = branch.bytes[branch.opcode_at + 1U] & 0x0fU;
        writer.bytes({static_cast<std::uint8_t>(0x70U | condition)}); // 0f 8x rel32 -> 7x rel8
    } else {
        writer.bytes({opcode});
    }
    const std::size_t distance = writer.reserve_distance8();
    writer.point(next);
    writer.jump(next);
    writer.set_distance8(distance);
    writer.point(branch.target);
    writer.jump(branch.target);
}

} // namespace

Result<DisplacedInstruction> displace(CodeAddr from, std::span<const std::uint8_t> bytes,
                                      CodeAddr slot) {
    auto decoded = decode_movable(from, bytes);
    if (!decoded) {
        return std::move(decoded).error();
    }
    const Instruction& instruction = *decoded;
    const CodeAddr next = from + instruction.length;
    SlotWriter writer(slot);

    switch (instruction.flow) {
    case Flow::next:
    case Flow::elsewhere: {
        auto moved = moved_to(instruction, writer.here());
        if (!moved) {
            return std::move(moved).error();
        }
        writer.point(from);
        writer.bytes(moved->code());
        if (instruction.flow == Flow::next) {
            writer.point(next);
            writer.jump(next);
        }
        break;
    }
    case Flow::jump:
        writer.point(from);
        writer.jump(instruction.target);
        break;
    case Flow::branch:
        writer.point(from);
        write_branch(writer, instruction, next);
        break;
    case Flow::call:
        push_return_address(writer, from, next);
        writer.point(instruction.target); // the call is over
        writer.jump(instruction.target);
        break;
    case Flow::indirect_call: {
        auto jump = jump_after_push(instruction);
        if (!jump) {
            return std::move(jump).error();
        }
        push_return_address(writer, from, next);
        auto moved = moved_to(*std::move(jump), writer.here());
        if (!moved) {
            return std::move(moved).error();
        }
        writer.point(from, kPushed);
        writer.bytes(moved->code());
        break;
    }
    }
    return std::move(writer).finish(instruction.length);
}

} // namespace x86_64
} // namespace memleax::arch
