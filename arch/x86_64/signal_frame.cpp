// SPDX-License-Identifier: GPL-3.0-or-later
// The frame that the kernel pushes before a signal handler runs: struct rt_sigframe in
// arch/x86/include/asm/sigframe.h. The handler's `ret` pops the first word (pretcode, the address
// of the restorer), so that at the restorer sp points to the struct ucontext:
//
//      sp ->  uc_flags, uc_link          16 bytes
//             uc_stack                   24
//      +40    r8 r9 .. r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags cs:gs:fs err ...
#include <cstring>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

bool is_signal_return_code(std::span<const std::byte> code) {
    static constexpr std::array<std::uint8_t, 9> restorer{
        0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, // mov $15,%rax    __NR_rt_sigreturn
        0x0f, 0x05,                               // syscall
    };
    // Written in C (or Go), a compiler takes the shorter form.
    static constexpr std::array<std::uint8_t, 7> short_restorer{
        0xb8, 0x0f, 0x00, 0x00, 0x00, // mov $15,%eax
        0x0f, 0x05,                   // syscall
    };
    const auto begins_with = [&](const auto& bytes) {
        return code.size() >= bytes.size() &&
               std::memcmp(code.data(), bytes.data(), bytes.size()) == 0;
    };
    return begins_with(restorer) || begins_with(short_restorer);
}

bool looks_like_signal_frame(std::span<const std::byte> /*frame*/) {
    return true; // the word before it tells
}

// arch/x86/kernel/signal_64.c, x64_setup_rt_frame: the handler's three arguments, whatever its
// flags.
bool begins_signal_handler(const Registers& regs, std::span<const std::byte> /*frame*/) {
    const std::uint64_t context = regs.rsp + kSignalFrameReturnWord;
    return regs.rdx == context && regs.rsi == context + kSignalFrameInfoOffset && regs.rax == 0;
}

std::optional<Registers> registers_from_signal_frame(std::span<const std::byte> frame) {
    if (frame.size() < kSignalFrameSize) {
        return std::nullopt;
    }
    static constexpr std::size_t kGregsOffset = 40;
    enum {
        R8,
        R9,
        R10,
        R11,
        R12,
        R13,
        R14,
        R15,
        DI,
        SI,
        BP,
        BX,
        DX,
        AX,
        CX,
        SP,
        IP,
        FLAGS,
        CSGSFS
    };
    std::uint64_t gregs[CSGSFS + 1];
    std::memcpy(gregs, frame.data() + kGregsOffset, sizeof(gregs));

    Registers regs{};
    regs.r8 = gregs[R8];
    regs.r9 = gregs[R9];
    regs.r10 = gregs[R10];
    regs.r11 = gregs[R11];
    regs.r12 = gregs[R12];
    regs.r13 = gregs[R13];
    regs.r14 = gregs[R14];
    regs.r15 = gregs[R15];
    regs.rdi = gregs[DI];
    regs.rsi = gregs[SI];
    regs.rbp = gregs[BP];
    regs.rbx = gregs[BX];
    regs.rdx = gregs[DX];
    regs.rax = gregs[AX];
    regs.rcx = gregs[CX];
    regs.rsp = gregs[SP];
    regs.rip = gregs[IP];
    regs.eflags = gregs[FLAGS];
    regs.cs = gregs[CSGSFS] & 0xffff;
    regs.orig_rax = static_cast<std::uint64_t>(-1);
    return regs;
}

} // namespace x86_64
} // namespace memleax::arch
