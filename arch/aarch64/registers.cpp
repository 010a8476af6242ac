// SPDX-License-Identifier: GPL-3.0-or-later
// Registers by meaning: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64), and the
// kernel's convention for system calls (syscall(2)): x8 has the number, x0 the result.
#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr unsigned kNumber = 8;
constexpr unsigned kLinkRegister = 30;

} // namespace

CodeAddr pc(const Registers& regs) {
    return CodeAddr(regs.pc);
}

void set_pc(Registers& regs, CodeAddr pc) {
    regs.pc = pc.value();
}

RemoteAddr sp(const Registers& regs) {
    return RemoteAddr(regs.sp);
}

void set_sp(Registers& regs, RemoteAddr sp) {
    regs.sp = sp.value();
}

std::uint64_t argument(const Registers& regs, unsigned n) {
    MEMLEAX_ASSERT(n < 8); // further ones are on the stack
    return regs.x[n];
}

std::uint64_t return_value(const Registers& regs) {
    return regs.x[0];
}

std::uint64_t dwarf_register(const Registers& regs, unsigned number) {
    if (number == kDwarfStackPointer) {
        return regs.sp;
    }
    return number < kDwarfStackPointer ? regs.x[number] : 0;
}

std::optional<CodeAddr> return_address_in_register(const Registers& regs) {
    return CodeAddr(regs.x[kLinkRegister]);
}

RemoteAddr sp_after_return(const Registers& regs) {
    return RemoteAddr(regs.sp); // `ret` leaves it alone
}

CodeAddr executed_breakpoint(const Registers& regs) {
    return CodeAddr(regs.pc); // brk does not go on by itself
}

void prepare_system_call(Registers& regs, CodeAddr instruction, long number,
                         std::span<const std::uint64_t> arguments) {
    MEMLEAX_ASSERT(arguments.size() <= 6);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        regs.x[i] = arguments[i];
    }
    regs.x[kNumber] = static_cast<std::uint64_t>(number);
    // do_signal() (kernel, arch/arm64/kernel/signal.c) has put pc and x0 back before an interrupted
    // call already, when we see them. It undoes that only if it finds the pc there again.
    regs.pc = instruction.value();
}

std::optional<long> call_that_failed_with(const Registers& regs, int errnum) {
    // The kernel keeps x8. Whether there was a call at all, the caller sees by the code.
    if (system_call_result(regs) != -errnum) {
        return std::nullopt;
    }
    return static_cast<long>(regs.x[kNumber]);
}

void begin_system_call_again(Registers& regs, std::uint64_t first_argument) {
    regs.pc -= kSyscallBytes.size();
    regs.x[0] = first_argument;
}

long system_call_result(const Registers& regs) {
    return static_cast<long>(regs.x[0]);
}

} // namespace aarch64
} // namespace memleax::arch
