// SPDX-License-Identifier: GPL-3.0-or-later
// Functions that begin with a jump of ours: what is under it, the jump, and the way into the agent.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <initializer_list>

#include <elf.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "instruction.hpp"
#include "slot_writer.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

constexpr std::uint8_t kNop = 0x90;
constexpr std::uint8_t kJump = 0xe9; // jmp rel32

/// jmp rel32 from a place within reach.
void put_jump(std::span<std::uint8_t> at, CodeAddr from, CodeAddr target) {
    const auto distance = static_cast<std::int32_t>(target - (from + 5));
    at[0] = kJump;
    std::memcpy(&at[1], &distance, sizeof distance);
}

bool leads_into(const Instruction& instruction, AddrRange inside) {
    return (instruction.flow == Flow::jump || instruction.flow == Flow::branch ||
            instruction.flow == Flow::call) &&
           inside.contains(instruction.target);
}

} // namespace

const char* reason_against_entry_jump(CodeAddr entry, std::span<const std::uint8_t> code) {
    if (code.size() < kEntryJumpBytes) {
        return "it is too short";
    }
    const AddrRange inside{entry.value() + 1, entry.value() + kEntryJumpBytes};
    for (std::size_t at = 0; at < code.size();) {
        const CodeAddr from = entry + static_cast<std::int64_t>(at);
        const auto instruction = decode_movable(from, code.subspan(at));
        if (!instruction) {
            // Only what leads somewhere matters, and that could be moved.
            const std::size_t length = instruction_length(from, code.subspan(at));
            if (length == 0) {
                return "its code cannot be read";
            }
            at += length;
            continue;
        }
        if (leads_into(*instruction, inside)) {
            return "there is a jump to the middle of its first bytes";
        }
        at += instruction->length;
    }
    return nullptr;
}

namespace {

constexpr std::uint64_t kEachByte = 0x0101010101010101;

/// Is one of eight bytes 0?
constexpr bool has_zero(std::uint64_t bytes) {
    constexpr std::uint64_t kHighest = kEachByte * 0x80;
    return ((bytes - kEachByte) & ~bytes & kHighest) != 0;
}

/// Is there an e8, e9 or 0f among the next eight bytes? In code that is so of every fourth eight.
bool may_begin_branch(const std::uint8_t* code) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, code, sizeof bytes);
    return has_zero((bytes | kEachByte) ^ (kEachByte * 0xe9)) ||
           has_zero(bytes ^ (kEachByte * 0x0f));
}

} // namespace

// call, jmp and jcc with rel32: e8, e9, 0f 80 to 0f 8f (Intel SDM volume 2, appendix A).
void for_each_branch_into(AddrRange inside, CodeAddr from, std::span<const std::uint8_t> code,
                          const std::function<void(CodeAddr target)>& each) {
    std::int32_t distance = 0;
    const auto look_at = [&](std::size_t at) { // where the opcode's last byte is
        if (code.size() - at <= sizeof distance) {
            return;
        }
        std::memcpy(&distance, &code[at + 1], sizeof distance);
        const CodeAddr target =
            from + static_cast<std::int64_t>(at + 1 + sizeof distance) + distance;
        if (inside.contains(target)) {
            each(target);
        }
    };
    for (std::size_t at = 0; at < code.size();) {
        if (code.size() - at >= sizeof(std::uint64_t) && !may_begin_branch(&code[at])) {
            at += sizeof(std::uint64_t);
            continue;
        }
        const std::size_t end = std::min(code.size(), at + sizeof(std::uint64_t));
        for (; at < end; ++at) {
            if ((code[at] & 0xfe) == 0xe8) {
                look_at(at);
            } else if (code[at] == 0x0f && at + 1 < code.size() && (code[at + 1] & 0xf0) == 0x80) {
                look_at(at + 1);
            }
        }
    }
}

Result<DisplacedInstruction> displace_entry(CodeAddr entry, std::span<const std::uint8_t> code,
                                            CodeAddr slot) {
    std::size_t length = 0;
    SlotWriter writer(slot);
    while (length < kEntryJumpBytes) {
        const CodeAddr from = entry + static_cast<std::int64_t>(length);
        auto decoded = decode_movable(from, code.subspan(length));
        if (!decoded) {
            return std::move(decoded).error();
        }
        if (length > 0 && decoded->may_fault) {
            return Error(kFaultBehindFirst);
        }
        const bool is_last = length + decoded->length >= kEntryJumpBytes;
        if (decoded->flow == Flow::call || decoded->flow == Flow::indirect_call ||
            (decoded->flow != Flow::next && !is_last)) {
            return Error("a jump, a call or a return is among its first instructions");
        }
        if (is_last && decoded->flow != Flow::next) {
            auto moved = displace(from, code.subspan(length), writer.here());
            if (!moved) {
                return std::move(moved).error();
            }
            for (const SlotPoint& point : moved->points) {
                writer.point_at(point);
            }
            writer.bytes(moved->code);
        } else {
            auto moved = moved_to(*decoded, writer.here());
            if (!moved) {
                return std::move(moved).error();
            }
            writer.point(from);
            writer.bytes(moved->code());
            if (is_last) {
                const CodeAddr next = from + decoded->length;
                writer.point(next);
                writer.jump(next);
            }
        }
        length += decoded->length;
    }
    if (writer.size() > kSlotCodeBytes) {
        return Error("too much code for a slot");
    }
    return std::move(writer).finish(static_cast<std::uint8_t>(length));
}

std::optional<EntryJump> entry_jump(CodeAddr entry, std::span<const std::uint8_t> /*code*/,
                                    CodeAddr target) {
    return plain_jump(entry, target);
}

std::optional<EntryJump> plain_jump(CodeAddr from, CodeAddr target) {
    if (!SlotWriter::fits32(target - (from + 5))) {
        return std::nullopt;
    }
    EntryJump jump{};
    put_jump(jump, from, target);
    return jump;
}

// The callers of a function that is compiled together with them may keep values in any register
// that it leaves alone (gcc's -fipa-ra), r11 as well. It is kept below the stack pointer, in what
// the function may use as its own (AMD64 supplement, 3.2.2): no signal's handler touches that.
//
//       0  mov  %r11,-16(%rsp)
//       5  lea  Function(%rip),%r11
//      12  jmp  stub
//      17  mov  -16(%rsp),%r11
//      22  nop                               the trap: a breakpoint stands here
//      23  jmp  original
//      28  mov  -16(%rsp),%r11
//      33  jmp  original
std::array<std::uint8_t, kThunkFunctionAt> thunk_code(CodeAddr thunk, CodeAddr stub,
                                                      CodeAddr original) {
    std::array<std::uint8_t, kThunkFunctionAt> code{};
    code.fill(kBreakpointBytes[0]);
    std::size_t at = 0;
    const auto put = [&](std::initializer_list<std::uint8_t> bytes) {
        std::copy(bytes.begin(), bytes.end(), &code.at(at));
        at += bytes.size();
    };
    const auto jump_to = [&](CodeAddr target) {
        put_jump(std::span(code).subspan(at), thunk + static_cast<std::int64_t>(at), target);
        at += kEntryJumpBytes;
    };
    const std::initializer_list<std::uint8_t> restore{0x4c, 0x8b, 0x5c, 0x24, 0xf0};
    put({0x4c, 0x89, 0x5c, 0x24, 0xf0});
    constexpr std::uint8_t kBehindLea = 12;
    put({0x4c, 0x8d, 0x1d, kThunkFunctionAt - kBehindLea, 0, 0, 0});
    jump_to(stub);
    MEMLEAX_ASSERT(at == kThunkTrapExitAt);
    put(restore);
    MEMLEAX_ASSERT(at == kThunkTrapAt);
    put({kNop});
    jump_to(original);
    MEMLEAX_ASSERT(at == kThunkPassExitAt);
    put(restore);
    jump_to(original);
    return code;
}

//       0  cmp  $SIGTRAP,%edi
//       3  je   10
//       5  jmp  original
//      10  test %rsi,%rsi                    it sets one
//      13  jne  22
//      15  test %rdx,%rdx
//      18  jne  28
//      20  xchg %ax,%ax
//      22  nop                               the trap
//      23  jmp  original
//      28  cmpb $0,answers
//      35  je   22
//      37  mov  16(%rdx),%r8                 the kernel's struct is longer than what the C
//      41  mov  24(%rdx),%r9                 library writes there
//      45  mov  $SYS_rt_sigaction,%eax
//      50  mov  $8,%r10d
//      56  syscall                           rt_sigaction(SIGTRAP, NULL, %rdx, 8)
//      58  mov  %r8,16(%rdx)
//      62  mov  %r9,24(%rdx)
//      66  test %eax,%eax
//      68  jne  22
//      70  mov  handler,%rcx
//      77  cmp  %rcx,(%rdx)
//      80  jne  22                           an action of this process's own
//      82  xor  %eax,%eax
//      84  mov  %rax,(%rdx)                  SIG_DFL, and neither mask nor flags
//      87  mov  %rax,8(%rdx)
//      91  mov  %eax,136(%rdx)
//      97  ret
//     104  answers
//     112  handler
std::array<std::uint8_t, kThunkBytes> gate_code(CodeAddr gate, CodeAddr original) {
    constexpr std::size_t kJumpAt = 5;
    constexpr std::size_t kBehindTrap = kThunkTrapAt + 1;
    static_assert(kThunkTrapAt == 22 && SYS_rt_sigaction == 13);
    std::array<std::uint8_t, kThunkBytes> code{};
    std::fill(code.begin(), code.begin() + kGateAnswersAt, kBreakpointBytes[0]);
    const auto put = [&code](std::size_t at, std::initializer_list<std::uint8_t> bytes) {
        std::copy(bytes.begin(), bytes.end(), code.begin() + static_cast<std::ptrdiff_t>(at));
    };
    // A short jump's distance, from behind it.
    const auto back_to_trap = [](std::size_t from) {
        return static_cast<std::uint8_t>(kThunkTrapAt - from);
    };
    put(0, {0x83, 0xff, SIGTRAP});
    put(3, {0x74, 10 - 5});
    put(10, {0x48, 0x85, 0xf6});
    put(13, {0x75, 22 - 15});
    put(15, {0x48, 0x85, 0xd2});
    put(18, {0x75, 28 - 20});
    put(20, {0x66, 0x90});
    put(22, {kNop});
    put(28, {0x80, 0x3d, kGateAnswersAt - 35, 0, 0, 0, 0});
    put(35, {0x74, back_to_trap(37)});
    put(37, {0x4c, 0x8b, 0x42, 16});
    put(41, {0x4c, 0x8b, 0x4a, 24});
    put(45, {0xb8, SYS_rt_sigaction, 0, 0, 0});
    put(50, {0x41, 0xba, 8, 0, 0, 0});
    put(56, {0x0f, 0x05});
    put(58, {0x4c, 0x89, 0x42, 16});
    put(62, {0x4c, 0x89, 0x4a, 24});
    put(66, {0x85, 0xc0});
    put(68, {0x75, back_to_trap(70)});
    put(70, {0x48, 0x8b, 0x0d, kGateHandlerAt - 77, 0, 0, 0});
    put(77, {0x48, 0x39, 0x0a});
    put(80, {0x75, back_to_trap(82)});
    put(82, {0x31, 0xc0});
    put(84, {0x48, 0x89, 0x02});
    put(87, {0x48, 0x89, 0x42, 8});
    put(91, {0x89, 0x82, 136, 0, 0, 0});
    put(97, {0xc3});
    for (const std::size_t at : {kJumpAt, kBehindTrap}) {
        put_jump(std::span(code).subspan(at), gate + static_cast<std::int64_t>(at), original);
    }
    return code;
}

std::uint64_t thread_pointer(const Registers& regs) {
    return regs.fs_base;
}

// rdfsbase needs the kernel's leave (Linux 5.9; Documentation/arch/x86/x86_64/fsgs.rst).
bool agent_may_ask_cpu() {
    constexpr unsigned long kFsgsbase = 1UL << 1; // HWCAP2_FSGSBASE
    return (getauxval(AT_HWCAP2) & kFsgsbase) != 0;
}

bool after_failed_pointer_read(std::span<const std::uint8_t> code, Registers* regs) {
    // mov %fs:0, %rax (agent_cpu.hpp)
    constexpr std::array<std::uint8_t, kPointerReadBytes> kRead{0x64, 0x48, 0x8b, 0x04, 0x25};
    if (!std::equal(kRead.begin(), kRead.end(), code.begin(), code.end())) {
        return false;
    }
    regs->rax = 0;
    regs->rip += kRead.size();
    return true;
}

} // namespace x86_64
} // namespace memleax::arch
