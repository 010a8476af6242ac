// SPDX-License-Identifier: GPL-3.0-or-later
// Registers by meaning: System V ABI, AMD64 supplement, sections 3.2 (calls) and A.2 (system
// calls).
#include <iterator>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

CodeAddr pc(const Registers& regs) {
    return CodeAddr(regs.rip);
}

void set_pc(Registers& regs, CodeAddr pc) {
    regs.rip = pc.value();
}

RemoteAddr sp(const Registers& regs) {
    return RemoteAddr(regs.rsp);
}

void set_sp(Registers& regs, RemoteAddr sp) {
    regs.rsp = sp.value();
}

// The kernel has one selector for 64-bit code (__USER_CS), and another one in a guest of Xen's
// (arch/x86/include/asm/ptrace.h, user_64bit_mode()): ours is either.
bool executes_native_code(const Registers& regs) {
    constexpr std::uint64_t kUserCodeSelector = 0x33;
    std::uint16_t own = 0;
    __asm__("mov %%cs, %0" : "=r"(own));
    return regs.cs == kUserCodeSelector || regs.cs == own;
}

std::uint64_t argument(const Registers& regs, unsigned n) {
    const std::uint64_t arguments[] = {regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9};
    MEMLEAX_ASSERT(n < std::size(arguments)); // further ones are on the stack
    return arguments[n];
}

void set_argument(Registers& regs, unsigned n, std::uint64_t value) {
    decltype(&regs.rdi)
        const places[] = {&regs.rdi, &regs.rsi, &regs.rdx, &regs.rcx, &regs.r8, &regs.r9};
    MEMLEAX_ASSERT(n < std::size(places));
    *places[n] = value;
}

std::uint64_t return_value(const Registers& regs) {
    return regs.rax;
}

std::uint64_t dwarf_register(const Registers& regs, unsigned number) {
    const std::uint64_t in_dwarf_order[] = {
        regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8,
        regs.r9,  regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rip};
    static_assert(std::size(in_dwarf_order) == kDwarfRegisterCount);
    return number < kDwarfRegisterCount ? in_dwarf_order[number] : 0;
}

Registers registers_from_perf(std::span<const std::uint64_t, kPerfRegisterCount> values) {
    decltype(&Registers::rax) const order[] = {
        &Registers::rax, &Registers::rbx, &Registers::rcx, &Registers::rdx, &Registers::rsi,
        &Registers::rdi, &Registers::rbp, &Registers::rsp, &Registers::rip, &Registers::eflags,
        &Registers::cs,  &Registers::ss,  &Registers::r8,  &Registers::r9,  &Registers::r10,
        &Registers::r11, &Registers::r12, &Registers::r13, &Registers::r14, &Registers::r15};
    static_assert(std::size(order) == kPerfRegisterCount);
    Registers regs{};
    for (std::size_t i = 0; i < kPerfRegisterCount; ++i) {
        regs.*order[i] = values[i];
    }
    return regs;
}

std::optional<CodeAddr> return_address_in_register(const Registers& /*regs*/) {
    return std::nullopt; // `call` pushes it
}

RemoteAddr sp_after_return(const Registers& regs) {
    return RemoteAddr(regs.rsp) + 8; // `ret` pops the return address
}

CodeAddr executed_breakpoint(const Registers& regs) {
    return CodeAddr(regs.rip) - static_cast<std::int64_t>(kBreakpointBytes.size());
}

void prepare_system_call(Registers& regs, CodeAddr instruction, long number,
                         std::span<const std::uint64_t> arguments) {
    MEMLEAX_ASSERT(arguments.size() <= 6);
    decltype(&regs.rdi)
        const places[] = {&regs.rdi, &regs.rsi, &regs.rdx, &regs.r10, &regs.r8, &regs.r9};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        *places[i] = arguments[i];
    }
    regs.rip = instruction.value();
    regs.rax = static_cast<std::uint64_t>(number);
    // A thread that steps itself must not do so in what is ours: its SIGTRAP is blocked there.
    constexpr std::uint64_t kTrapFlag = 0x100;
    regs.eflags &= ~kTrapFlag;
    // With orig_rax >= 0 and rax == -ERESTART*, arch_do_signal_or_restart() (kernel,
    // arch/x86/kernel/signal.c) would step rip back by 2 and load rax anew when the thread resumes.
    regs.orig_rax = static_cast<std::uint64_t>(-1);
}

void prepare_copying(Registers& /*regs*/) {
    // The code has the numbers of its calls in itself.
}

long system_call_number(const Registers& regs) {
    return static_cast<long>(regs.orig_rax);
}

std::uint64_t system_call_argument(const Registers& regs, unsigned n) {
    const std::uint64_t arguments[] = {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9};
    MEMLEAX_ASSERT(n < std::size(arguments));
    return arguments[n];
}

std::optional<long> call_that_failed_with(const Registers& regs, int errnum) {
    // The kernel keeps the call's number here, and -1 when the thread came in by anything else.
    const bool in_system_call = static_cast<std::int64_t>(regs.orig_rax) >= 0;
    if (!in_system_call || system_call_result(regs) != -errnum) {
        return std::nullopt;
    }
    return static_cast<long>(regs.orig_rax);
}

void begin_system_call_again(Registers& regs, std::uint64_t /*first_argument*/) {
    regs.rip -= kSyscallBytes.size();
    regs.rax = regs.orig_rax;
    regs.orig_rax = static_cast<std::uint64_t>(-1);
}

void fail_system_call(Registers& regs, int errnum) {
    regs.rip += kSyscallBytes.size();
    regs.rax = static_cast<std::uint64_t>(-errnum);
}

void continue_interrupted_call(Registers& /*regs*/) {
    // orig_rax and rax still tell the kernel all, whatever happened in between.
}

void end_interrupted_call(Registers& /*regs*/) {
    // The same.
}

bool would_be_discarded(std::span<const std::byte> /*regset*/) {
    return false;
}

long system_call_result(const Registers& regs) {
    return static_cast<long>(regs.rax);
}

} // namespace x86_64
} // namespace memleax::arch
