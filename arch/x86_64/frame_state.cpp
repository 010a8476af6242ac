// SPDX-License-Identifier: GPL-3.0-or-later
// Where the caller is when no unwind table says it: told from the instructions that come next.
//
// How far the CFA is from sp depends on the pc alone, so any path from here to the function's end
// tells it: follow the next few instructions, add up what they push and pop, and see which comes
// first:
//
//      ret                 the return address is on top of the stack by then: CFA = sp + 8
//      push %rbp           a function's beginning; the same
//      mov %rsp,%rbp       rbp was pushed already, and has the caller's value still: CFA = sp + 16
//      leave, pop %rbp     the frame pointer is in place: nothing to tell here
#include <cstring>
#include <initializer_list>

#include "arch.hpp"
#include "decoder.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

constexpr unsigned kMaxInstructions = 24;

bool is_register(const cs_x86_op& operand, x86_reg which) {
    return operand.type == X86_OP_REG && operand.reg == which;
}

/// Does it do anything to rsp that is not followed here?
bool writes_sp(const cs_x86& x86) {
    for (unsigned i = 0; i < x86.op_count; ++i) {
        const cs_x86_op& operand = x86.operands[i];
        if ((operand.access & CS_AC_WRITE) != 0 &&
            (is_register(operand, X86_REG_RSP) || is_register(operand, X86_REG_ESP))) {
            return true;
        }
    }
    return false;
}

/// Follows the code from one pc on.
class Follower {
  public:
    Follower(Decoder& decoder, std::span<const std::byte> code) : decoder_(decoder), code_(code) {}

    /// CFA - sp at the pc, if the way to where it can be told is short. Calls end it: sp moves and
    /// comes back, but the callee may never return, and what follows may be another function.
    std::optional<std::int32_t> cfa_from(std::uint64_t offset, std::int32_t popped) {
        while (offset < code_.size() && budget_-- > 0) {
            const cs_insn* instruction = decoder_.decode(offset, code_.subspan(offset));
            if (instruction == nullptr) {
                return std::nullopt;
            }
            offset += instruction->size;
            const cs_x86& x86 = instruction->detail->x86;
            const cs_x86_op& first = x86.operands[0];
            switch (instruction->id) {
            case X86_INS_RET:
                return popped + 8;
            case X86_INS_PUSH:
                if (is_register(first, X86_REG_RBP)) {
                    return popped + 8;
                }
                popped -= 8;
                break;
            case X86_INS_POP:
                if (is_register(first, X86_REG_RBP) || is_register(first, X86_REG_RSP)) {
                    return std::nullopt;
                }
                popped += 8;
                break;
            case X86_INS_MOV:
                if (is_register(first, X86_REG_RBP) && is_register(x86.operands[1], X86_REG_RSP)) {
                    return popped + 16;
                }
                if (writes_sp(x86)) {
                    return std::nullopt;
                }
                break;
            case X86_INS_ADD:
            case X86_INS_SUB:
                if (is_register(first, X86_REG_RSP)) {
                    const std::int64_t n = x86.operands[1].imm;
                    if (x86.operands[1].type != X86_OP_IMM || n < -kMaxFrame || n > kMaxFrame) {
                        return std::nullopt;
                    }
                    popped += static_cast<std::int32_t>(instruction->id == X86_INS_ADD ? n : -n);
                }
                break;
            case X86_INS_LEAVE:
            case X86_INS_CALL:
            case X86_INS_JMP:
            case X86_INS_INT3:
            case X86_INS_HLT:
            case X86_INS_UD2:
                return std::nullopt;
            default:
                if (writes_sp(x86)) {
                    return std::nullopt;
                }
                if (decoder_.is_jump(*instruction) && first.type == X86_OP_IMM) {
                    const auto target = static_cast<std::uint64_t>(first.imm);
                    if (const auto found = cfa_from(offset, popped)) {
                        return found;
                    }
                    if (target < offset) {
                        return std::nullopt; // a loop, or out of what was read
                    }
                    offset = target;
                }
            }
        }
        return std::nullopt;
    }

  private:
    static constexpr std::int64_t kMaxFrame = 1 << 20;
    Decoder& decoder_;
    std::span<const std::byte> code_;
    unsigned budget_ = kMaxInstructions; ///< for all branches together
};

std::optional<std::int32_t> cfa_by_following(std::span<const std::byte> code) {
    thread_local Decoder decoder;
    return Follower(decoder, code).cfa_from(0, 0);
}

/// The bytes from pc on, and those before it.
class CodeWindow {
  public:
    CodeWindow(std::span<const std::byte> before, std::span<const std::byte> at)
        : before_(before), at_(at) {}

    [[nodiscard]] bool next_is(std::initializer_list<std::uint8_t> bytes,
                               std::size_t skip = 0) const {
        return at_.size() >= skip + bytes.size() &&
               std::memcmp(at_.data() + skip, bytes.begin(), bytes.size()) == 0;
    }
    /// Do these bytes begin `distance` bytes before pc?
    [[nodiscard]] bool before_is(std::initializer_list<std::uint8_t> bytes,
                                 std::size_t distance) const {
        return before_.size() >= distance && std::memcmp(before_.data() + before_.size() - distance,
                                                         bytes.begin(), bytes.size()) == 0;
    }

  private:
    std::span<const std::byte> before_;
    std::span<const std::byte> at_;
};

/// Entries of a procedure linkage table (System V ABI, AMD64 supplement, section 5.2; linkers emit
/// them with and without endbr64 and the bnd prefix). They push at most a relocation index and the
/// link map's address.
std::optional<std::int32_t> cfa_in_plt(const CodeWindow& code, std::size_t skip) {
    if (code.next_is({0xff, 0x25}, skip) || code.next_is({0xf2, 0xff, 0x25}, skip)) {
        // jmp *x(%rip); in PLT0 two words were pushed by then, the second by push y(%rip)
        return skip == 0 && code.before_is({0xff, 0x35}, 6) ? 24 : 8;
    }
    if (code.next_is({0xff, 0x35}, skip) && // PLT0: push x(%rip); jmp *y(%rip)
        (code.next_is({0xff, 0x25}, skip + 6) || code.next_is({0xf2, 0xff, 0x25}, skip + 6))) {
        return 16;
    }
    if (code.next_is({0x68}, skip) && // a lazy entry: push $n; jmp PLT0
        (code.next_is({0xe9}, skip + 5) || code.next_is({0xf2, 0xe9}, skip + 5))) {
        return 8;
    }
    const bool jumps = code.next_is({0xe9}, skip) || code.next_is({0xf2, 0xe9}, skip);
    if (jumps && skip == 0 && code.before_is({0x68}, 5)) {
        return 16;
    }
    return std::nullopt;
}

} // namespace

std::optional<FrameEdge> frame_edge(std::span<const std::byte> before,
                                    std::span<const std::byte> at) {
    // The return address is the word before the CFA, always.
    const auto edge = [](std::int32_t cfa_offset) { return FrameEdge{cfa_offset, -8}; };
    const CodeWindow code(before, at);
    const std::size_t endbr64 = code.next_is({0xf3, 0x0f, 0x1e, 0xfa}) ? 4 : 0;
    if (const auto offset = cfa_in_plt(code, endbr64)) {
        return edge(*offset);
    }
    if (const auto offset = cfa_by_following(at.subspan(endbr64))) {
        return edge(*offset);
    }
    if (endbr64 != 0) {
        return edge(8); // begins a function (or follows a call of setjmp, which is rare)
    }
    return std::nullopt;
}

} // namespace x86_64
} // namespace memleax::arch
