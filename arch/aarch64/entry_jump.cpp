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
        // What cannot be moved leads nowhere by a distance.
        const auto instruction =
            decode_movable(entry + static_cast<std::int64_t>(at), code.subspan(at));
        const bool leads_somewhere =
            instruction && (instruction->kind == Kind::jump || instruction->kind == Kind::branch ||
                            instruction->kind == Kind::call);
        if (leads_somewhere && instruction->target == second) {
            return "there is a jump to the middle of its first bytes";
        }
    }
    return nullptr;
}

Result<DisplacedInstruction> displace_entry(CodeAddr entry, std::span<const std::uint8_t> code,
                                            CodeAddr slot) {
    SlotWriter writer(slot);
    for (std::size_t at = 0; at < kEntryJumpBytes; at += kInstructionBytes) {
        const CodeAddr from = entry + static_cast<std::int64_t>(at);
        const auto decoded = decode_movable(from, code.subspan(at));
        if (!decoded) {
            return Error(decoded.error());
        }
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

/// A thunk of these two instructions, the trap, and the way to the original code.
std::array<std::uint8_t, kThunkFunctionAt> with_exits(std::uint32_t first, std::uint32_t second,
                                                      CodeAddr original) {
    constexpr std::size_t kLiteralAt = 24;
    constexpr std::uint32_t kLoad = 0x58000011U | (kLiteralAt - kThunkPassExitAt) / 4 << 5U;
    constexpr std::uint32_t kJump = 0xd61f0220; // br x17
    const std::array<std::uint32_t, kLiteralAt / kInstructionBytes> words{first, second, kNop,
                                                                          kLoad, kJump,  kFiller};
    std::array<std::uint8_t, kThunkFunctionAt> code{};
    std::memcpy(code.data(), words.data(), sizeof words);
    const std::uint64_t literal = original.value();
    std::memcpy(&code[kLiteralAt], &literal, sizeof literal);
    return code;
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
    constexpr std::uint32_t kAddress = 0x10000010U | kThunkFunctionAt / 4 << 5U;
    const auto to_stub = branch_to(thunk + kBranchAt, stub);
    MEMLEAX_ASSERT(to_stub); // in the same piece of code
    return with_exits(kAddress, *to_stub, original);
}

//       0  cmp  w0,#SIGTRAP
//       4  b.ne 12
//       8  and so on, as above
std::array<std::uint8_t, kThunkBytes> gate_code(CodeAddr /*gate*/, CodeAddr original) {
    constexpr std::uint32_t kCompare = 0x7100001fU | SIGTRAP << 10U;
    constexpr std::uint32_t kBranch = 0x54000001U | (kThunkPassExitAt - 4) / 4 << 5U;
    const auto code = with_exits(kCompare, kBranch, original);
    std::array<std::uint8_t, kThunkBytes> result{};
    std::copy(code.begin(), code.end(), result.begin());
    return result;
}

std::uint64_t thread_pointer(const Registers& /*regs*/) {
    return 0; // kThreadPointerRegset has it
}

bool agent_knows_threads() {
    return true;
}

} // namespace aarch64
} // namespace memleax::arch
