// SPDX-License-Identifier: GPL-3.0-or-later
// Registers by meaning: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64), and the
// kernel's convention for system calls (syscall(2)): x8 has the number, x0 the result.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr unsigned kNumber = 8;
constexpr unsigned kLinkRegister = 30;

/// System calls (include/uapi/asm-generic/unistd.h), not this program's own <sys/syscall.h>: see
/// Registers.
enum SystemCall : std::uint64_t {
    kPselect6 = 72,
    kPpoll = 73,
    kFutex = 98,
    kNanosleep = 101,
    kClockNanosleep = 115,
    kRestartSyscall = 128,
    kRtSigsuspend = 133
};

/// FUTEX_WAIT and so on, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
std::uint64_t futex_command(const Registers& regs) {
    constexpr std::uint64_t kFutexCommands = 127;
    return regs.x[1] & kFutexCommands;
}

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

// PSR_MODE32_BIT (arch/arm64/include/uapi/asm/ptrace.h). The kernel gives a tracer other registers
// of such a thread, so that StoppedThread has none.
bool executes_native_code(const Registers& regs) {
    constexpr std::uint64_t kMode32 = 0x10;
    return (regs.pstate & kMode32) == 0;
}

std::uint64_t argument(const Registers& regs, unsigned n) {
    MEMLEAX_ASSERT(n < 8); // further ones are on the stack
    return regs.x[n];
}

void set_argument(Registers& regs, unsigned n, std::uint64_t value) {
    MEMLEAX_ASSERT(n < 8);
    regs.x[n] = value;
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

Registers registers_from_perf(std::span<const std::uint64_t, kPerfRegisterCount> values) {
    Registers regs{};
    std::copy_n(values.begin(), std::size(regs.x), std::begin(regs.x));
    regs.sp = values[std::size(regs.x)];
    regs.pc = values[std::size(regs.x) + 1];
    return regs;
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

void prepare_copying(Registers& regs) {
    constexpr std::uint64_t kExit = 93;
    constexpr std::uint64_t kRtSigreturn = 139;
    regs.x[10] = kRtSigreturn;
    regs.x[11] = kExit;
}

long system_call_number(const Registers& regs) {
    return static_cast<long>(regs.x[kNumber]);
}

std::uint64_t system_call_argument(const Registers& regs, unsigned n) {
    MEMLEAX_ASSERT(n < 6); // x7 is not the thread's own in such a stop
    return regs.x[n];
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

void fail_system_call(Registers& regs, int errnum) {
    regs.pc += kSyscallBytes.size();
    regs.x[0] = static_cast<std::uint64_t>(-errnum);
}

void continue_interrupted_call(Registers& regs) {
    constexpr std::uint64_t kTimerAbstime = 1;
    constexpr std::uint64_t kFutexWait = 0;
    const std::uint64_t number = regs.x[kNumber];
    const bool waits_for_time =
        number == kNanosleep || (number == kClockNanosleep && (regs.x[1] & kTimerAbstime) == 0) ||
        (number == kFutex && futex_command(regs) == kFutexWait && regs.x[3] != 0);
    if (waits_for_time) {
        regs.x[kNumber] = kRestartSyscall; // as setup_restart_syscall() in the kernel would
    }
}

void end_interrupted_call(Registers& regs) {
    constexpr std::uint64_t kEintr = 4;
    constexpr std::uint64_t kFutexWait = 0;
    constexpr std::uint64_t kFutexWaitBitset = 9;
    bool ends = false;
    switch (regs.x[kNumber]) {
    case kPselect6:
    case kPpoll:
    case kNanosleep:
    case kClockNanosleep:
    case kRestartSyscall:
    case kRtSigsuspend:
        ends = true;
        break;
    case kFutex: // only with a time limit
        ends = regs.x[3] != 0 &&
               (futex_command(regs) == kFutexWait || futex_command(regs) == kFutexWaitBitset);
        break;
    default:
        break;
    }
    if (ends) {
        regs.pc += kSyscallBytes.size();
        regs.x[0] = -kEintr;
    }
}

// struct user_sve_header: size, max_size, vl, max_vl, flags. Without SVE_PT_REGS_SVE there follow
// the vectors of NT_PRFPREG, or nothing.
bool would_be_discarded(std::span<const std::byte> regset) {
    constexpr std::size_t kHeaderBytes = 16;
    constexpr std::size_t kFlagsAt = 12;
    constexpr std::uint16_t kScalable = 1; // SVE_PT_REGS_SVE
    std::uint16_t flags = 0;
    if (regset.size() <= kHeaderBytes) {
        return false;
    }
    std::memcpy(&flags, regset.data() + kFlagsAt, sizeof flags);
    return (flags & kScalable) != 0;
}

long system_call_result(const Registers& regs) {
    return static_cast<long>(regs.x[0]);
}

} // namespace aarch64
} // namespace memleax::arch
