// SPDX-License-Identifier: GPL-3.0-or-later
// Functions that begin with a jump of ours: what is under it, the jump, and the way into the agent.
//
// The jump is two words, a landing pad and `b`: where the page is guarded (BTI), a function that is
// called through a pointer has to begin with one, and neither a branch nor a no-op is one (Arm ARM,
// D8.4.5; a brk is let in). bti is a no-op where there is no such thing.
#include <algorithm>
#include <csignal>
#include <cstring>

#include "decoder.hpp"
#include "displaced_code.hpp"
#include "flow.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr std::uint32_t kLandingPad = 0xd503245f; // bti c
constexpr std::uint32_t kNop = 0xd503201f;
constexpr std::uint32_t kFiller = 0; // udf #0

/// bti, bti c, bti j, bti jc: hints 32, 34, 36, 38.
constexpr bool is_landing_pad(std::uint32_t word) {
    constexpr std::uint32_t kWhich = 3U << 6U;
    return (word & ~kWhich) == 0xd503241f;
}

/// Where a branch leads by a distance; nothing for any other instruction.
std::optional<CodeAddr> target_of(const Result<Instruction>& instruction) {
    const bool leads_somewhere =
        instruction && (instruction->kind == Kind::jump || instruction->kind == Kind::branch ||
                        instruction->kind == Kind::call);
    return leads_somewhere ? std::optional(instruction->target) : std::nullopt;
}

EntryJump two_words(std::uint32_t first, std::uint32_t second) {
    EntryJump jump{};
    std::memcpy(jump.data(), &first, sizeof first);
    std::memcpy(&jump[kInstructionBytes], &second, sizeof second);
    return jump;
}

} // namespace

const char* reason_against_entry_jump(CodeAddr entry, std::span<const std::uint8_t> code) {
    if (code.size() < kEntryJumpBytes) {
        return "it is too short";
    }
    const CodeAddr second = entry + kInstructionBytes;
    for (std::size_t at = 0; at < code.size(); at += kInstructionBytes) {
        const auto instruction =
            decode_movable(entry + static_cast<std::int64_t>(at), code.subspan(at));
        if (target_of(instruction) == second) {
            return "there is a jump to the middle of its first bytes";
        }
        // Of the others that cannot be moved, none leads somewhere by a distance.
        const auto word = first_word(code.subspan(at));
        if (!instruction && word && is_unknown_branch(*word)) {
            return "its code has a branch that is not known";
        }
    }
    return nullptr;
}

void for_each_branch_into(AddrRange inside, CodeAddr from, std::span<const std::uint8_t> code,
                          const std::function<void(CodeAddr target)>& each) {
    for (std::size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
        const auto word = first_word(code.subspan(at));
        if (!word || !is_in_flow_group(*word)) {
            continue;
        }
        const auto target =
            target_of(decode_movable(from + static_cast<std::int64_t>(at), code.subspan(at)));
        if (target && inside.contains(*target)) {
            each(*target);
        }
    }
}

Result<DisplacedInstruction> displace_entry(CodeAddr entry, std::span<const std::uint8_t> code,
                                            CodeAddr slot) {
    SlotWriter writer(slot);
    Instruction first;
    for (std::size_t at = 0; at < kEntryJumpBytes; at += kInstructionBytes) {
        const CodeAddr from = entry + static_cast<std::int64_t>(at);
        const auto decoded = decode_movable(from, code.subspan(at));
        if (!decoded) {
            return Error(decoded.error());
        }
        // adrp and a load or store by it is how a variable of the file's is found.
        const bool is_variable = first.kind == Kind::address && first.rt == base_of(decoded->word);
        if (at > 0 && may_fault(decoded->word) && !is_variable) {
            return Error(kFaultBehindFirst);
        }
        first = at == 0 ? *decoded : first;
        const bool is_last = at + kInstructionBytes == kEntryJumpBytes;
        const bool is_call = decoded->kind == Kind::call || decoded->kind == Kind::indirect_call;
        const bool goes_away = decoded->kind == Kind::jump || decoded->kind == Kind::elsewhere;
        if (is_call || (goes_away && !is_last)) {
            return Error("a jump, a call or a return is among its first instructions");
        }
        const Behind behind = is_last ? Behind::way_back : Behind::next;
        if (const char* reason = write_displaced(writer, *decoded, from, behind)) {
            return Error(reason);
        }
    }
    if (!writer.reached()) {
        return Error("branch out of reach");
    }
    return std::move(writer).finish(kEntryJumpBytes);
}

std::optional<EntryJump> entry_jump(CodeAddr entry, std::span<const std::uint8_t> code,
                                    CodeAddr target) {
    const auto first = first_word(code);
    const auto jump = branch_to(entry + kInstructionBytes, target);
    if (!first || !jump) {
        return std::nullopt;
    }
    return two_words(is_landing_pad(*first) ? *first : kLandingPad, *jump);
}

std::optional<EntryJump> plain_jump(CodeAddr from, CodeAddr target) {
    const auto jump = branch_to(from, target);
    return jump ? std::optional(two_words(*jump, kFiller)) : std::nullopt;
}

namespace {

constexpr std::uint32_t kJumpToX17 = 0xd61f0220; // br x17

/// By how many words an instruction's target is further on, in the bits that tell it (imm19).
constexpr std::uint32_t distance(std::size_t from, std::size_t target) {
    const auto words =
        (static_cast<std::int32_t>(target) - static_cast<std::int32_t>(from)) / kInstructionBytes;
    return (static_cast<std::uint32_t>(words) & 0x7ffffU) << 5U;
}
constexpr std::uint32_t load_x17(std::size_t from, std::size_t literal) { // ldr x17,=literal
    return 0x58000011U | distance(from, literal);
}

} // namespace

// x16 and x17 are nobody's at a function's entry. The original is in a slot, whose page is not
// guarded.
//
//       0  adr  x16,Function
//       4  b    stub
//       8  nop                              the trap: a breakpoint stands here
//      12  ldr  x17,=original
//      16  br   x17
//      24  the literal
std::array<std::uint8_t, kThunkFunctionAt> thunk_code(CodeAddr thunk, CodeAddr stub,
                                                      CodeAddr original) {
    constexpr std::int64_t kBranchAt = 4;
    constexpr std::size_t kLiteralAt = 24;
    constexpr std::uint32_t kAddress = 0x10000010U | kThunkFunctionAt / 4 << 5U;
    const auto to_stub = branch_to(thunk + kBranchAt, stub);
    MEMLEAX_ASSERT(to_stub); // in the same piece of code
    const std::array<std::uint32_t, kLiteralAt / kInstructionBytes> words{
        kAddress, *to_stub, kNop, load_x17(kThunkPassExitAt, kLiteralAt), kJumpToX17, kFiller};
    std::array<std::uint8_t, kThunkFunctionAt> code{};
    std::memcpy(code.data(), words.data(), sizeof words);
    const std::uint64_t literal = original.value();
    std::memcpy(&code[kLiteralAt], &literal, sizeof literal);
    return code;
}

// But x16 and x17, only what the original takes for its system call, too, is changed: callers that
// are compiled together with it may keep values in any other register (gcc's -fipa-ra).
std::array<std::uint8_t, kThunkBytes> gate_code(CodeAddr /*gate*/, CodeAddr original) {
    constexpr std::size_t kLiteralAt = 120;
    constexpr std::size_t kFailedAt = 96;
    constexpr std::uint32_t kRtSigaction = 134; // asm-generic/unistd.h
    static_assert(kThunkTrapAt == 8 && kThunkPassExitAt == 12);
    constexpr std::array<std::uint32_t, kGateAnswersAt / kInstructionBytes> kWords{
        0x14000005,                                    //   0  b    20
        kFiller,                                       //
        kNop,                                          //   8  nop             the trap
        load_x17(12, kLiteralAt),                      //  12  ldr  x17,=original
        kJumpToX17,                                    //  16  br   x17
        0x7100001fU | SIGTRAP << 10U,                  //  20  cmp  w0,#SIGTRAP
        0x54000001U | distance(24, kThunkPassExitAt),  //  24  b.ne 12
        0xb5000001U | distance(28, kThunkTrapAt),      //  28  cbnz x1,8       it sets one
        0xb4000002U | distance(32, kThunkPassExitAt),  //  32  cbz  x2,12
        0x18000010U | distance(36, kGateAnswersAt),    //  36  ldr  w16,answers
        0x34000010U | distance(40, kThunkTrapAt),      //  40  cbz  w16,8
        0xa9414450,                                    //  44  ldp  x16,x17,[x2,#16]: the kernel's
                                                       //      struct is longer than what the C
                                                       //      library writes there
        0xd2800103,                                    //  48  mov  x3,#8
        0xd2800008U | kRtSigaction << 5U,              //  52  mov  x8,#SYS_rt_sigaction
        0xd4000001,                                    //  56  svc  #0
        0xa9014450,                                    //  60  stp  x16,x17,[x2,#16]
        0xb5000000U | distance(64, kFailedAt),         //  64  cbnz x0,96
        0x58000010U | distance(68, kGateHandlerAt),    //  68  ldr  x16,handler
        0xf9400051,                                    //  72  ldr  x17,[x2]
        0xeb11021f,                                    //  76  cmp  x16,x17
        0x54000001U | distance(80, kFailedAt),         //  80  b.ne 96         one of its own
        0xa9007c5f,                                    //  84  stp  xzr,xzr,[x2]: SIG_DFL, and
        0xb900885f,                                    //  88  str  wzr,[x2,#136]  no mask or flags
        0xd65f03c0,                                    //  92  ret
        0x52800000U | SIGTRAP << 5U,                   //  96  mov  w0,#SIGTRAP
        0x14000000U | (0x3ffffffU & (8U - 100U) / 4U), // 100  b    8
    };
    std::array<std::uint8_t, kThunkBytes> code{};
    std::memcpy(code.data(), kWords.data(), sizeof kWords);
    const std::uint64_t literal = original.value();
    std::memcpy(&code[kLiteralAt], &literal, sizeof literal);
    return code;
}

std::uint64_t thread_pointer(const Registers& /*regs*/) {
    return 0; // kThreadPointerRegset has it
}

bool agent_may_ask_cpu() {
    return true;
}

bool after_failed_pointer_read(std::span<const std::uint8_t> /*code*/, Registers* /*regs*/) {
    return false;
}

} // namespace aarch64
} // namespace memleax::arch
