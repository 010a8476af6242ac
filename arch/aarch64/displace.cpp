// SPDX-License-Identifier: GPL-3.0-or-later
// Instructions moved into a slot. What each kind becomes there (`next` follows it in the original
// code, `value` stands behind the slot's code):
//
//      plain                   the same word; b next
//      b target                b target
//      b.cond, cbz, tbz        b.cond taken; b next; taken: b target
//      bl target               ldr x30,=next; b target
//      blr x<n>                ldr x30,=next; br x<n>
//      br, ret                 the same
//      adr, adrp x<n>          ldr x<n>,=target; b next
//      ldr x<n>, target        ldr x<n>,=target; ldr x<n>,[x<n>]; b next
//      ldr d<n>, target        ldr x17,=target; ldr d<n>,[x17]; b next
//      prfm target             b next
//
// x17 is the linker's (AAPCS64, 6.1.1, IP1): at a function's entry and behind a call, where our
// breakpoints are, nobody keeps anything in it. BTI (Arm ARM, D8.4.5): a br out of a slot, whose
// page is not guarded, is let in at any landing pad; and a landing pad that was moved into a slot
// has the same effect there, none. A bl or blr in a slot would put the slot's address into x30.
#include "decoder.hpp"
#include "displaced_code.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr unsigned kLinkRegister = 30;
constexpr unsigned kScratch = 17;
constexpr unsigned kZeroRegister = 31;

/// The conditional branch, then both ways: the next instruction, and behind that the target.
void write_branch(SlotWriter& writer, const Instruction& branch, CodeAddr next, Behind behind) {
    constexpr std::uint32_t kTwoWords = 2U << 5U;
    const bool tests_bit = field(branch.word, 25, 6) == 0b011011; // tbz, tbnz: 14 bits, not 19
    const std::uint32_t distance = tests_bit ? 0x3fffU << 5U : 0x7ffffU << 5U;
    writer.word((branch.word & ~distance) | kTwoWords);
    writer.point(next);
    writer.jump(behind == Behind::next ? writer.here() + 2 * kInstructionBytes : next);
    writer.point(branch.target);
    writer.jump(branch.target);
}

/// blr to br, with x30 set before: the registers that it reads must not be that one.
const char* write_indirect_call(SlotWriter& writer, const Instruction& call, CodeAddr from) {
    constexpr std::uint32_t kIsCall = 1U << 21U;
    const bool has_modifier = field(call.word, 24, 1) != 0;
    if (field(call.word, 5, 5) == kLinkRegister ||
        (has_modifier && field(call.word, 0, 5) == kLinkRegister)) {
        return "call through x30";
    }
    writer.load_literal(kLinkRegister, (from + kInstructionBytes).value());
    writer.point(from); // it writes x30 whatever is in there
    writer.word(call.word & ~kIsCall);
    return nullptr;
}

/// The same load from [x<base>], which has the target's address.
std::uint32_t load_from(unsigned base, const Instruction& load) {
    const std::uint32_t size = field(load.word, 30, 2);
    std::uint32_t opcode = 0;
    if (load.kind == Kind::load) {
        constexpr std::uint32_t kOpcodes[] = {0xb9400000, 0xf9400000, 0xb9800000}; // w, x, ldrsw
        opcode = kOpcodes[size];
    } else {
        constexpr std::uint32_t kOpcodes[] = {0xbd400000, 0xfd400000, 0x3dc00000}; // s, d, q
        opcode = kOpcodes[size];
    }
    return opcode | base << 5U | load.rt;
}

} // namespace

const char* write_displaced(SlotWriter& writer, const Instruction& instruction, CodeAddr from,
                            Behind behind) {
    const CodeAddr next = from + kInstructionBytes;
    const std::uint64_t target = instruction.target.value();
    writer.point(from);
    switch (instruction.kind) {
    case Kind::elsewhere:
        writer.word(instruction.word);
        return nullptr;
    case Kind::jump:
        writer.jump(instruction.target);
        return nullptr;
    case Kind::branch:
        write_branch(writer, instruction, next, behind);
        return nullptr;
    case Kind::call:
        writer.load_literal(kLinkRegister, next.value());
        writer.point(instruction.target); // the call is over
        writer.jump(instruction.target);
        return nullptr;
    case Kind::indirect_call:
        return write_indirect_call(writer, instruction, from);
    case Kind::plain:
        writer.word(instruction.word);
        break;
    case Kind::address:
        writer.load_literal(instruction.rt, target);
        break;
    case Kind::load:
    case Kind::load_vector: {
        const bool into_itself = instruction.kind == Kind::load && instruction.rt != kZeroRegister;
        const unsigned base = into_itself ? instruction.rt : kScratch;
        writer.load_literal(base, target);
        writer.point(from); // the address's register is written anew, or nobody's
        writer.word(load_from(base, instruction));
        break;
    }
    case Kind::prefetch:
        break; // a hint; what follows means the same as the instruction
    }
    if (behind == Behind::way_back) {
        if (instruction.kind != Kind::prefetch) {
            writer.point(next);
        }
        writer.jump(next);
    }
    return nullptr;
}

Result<DisplacedInstruction> displace(CodeAddr from, std::span<const std::uint8_t> bytes,
                                      CodeAddr slot) {
    const auto decoded = decode_movable(from, bytes);
    if (!decoded) {
        return Error(decoded.error());
    }
    SlotWriter writer(slot);
    if (const char* reason = write_displaced(writer, *decoded, from, Behind::way_back)) {
        return Error(reason);
    }
    if (!writer.reached()) {
        return Error("branch out of reach");
    }
    return std::move(writer).finish(kInstructionBytes);
}

} // namespace aarch64
} // namespace memleax::arch
