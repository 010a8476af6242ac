// SPDX-License-Identifier: GPL-3.0-or-later
/// x86_64: the register set and the constants of arch.hpp. Include arch.hpp instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <sys/user.h>

/// The inline namespace that all of a CPU's code is in, so that the pure parts of two of them can
/// be linked into one program (the tests).
#define MEMLEAX_CPU x86_64

namespace memleax::arch {
inline namespace x86_64 {

/// As the kernel lays it out (arch/x86/include/asm/user_64.h).
using Registers = ::user_regs_struct;

struct DiscardedRegset {
    int set;
    unsigned long entry;
    unsigned long capability;
};

inline constexpr const char* kName = "x86_64";
/// ELF e_machine and class of the programs that we can watch: EM_X86_64, ELFCLASS64.
inline constexpr std::uint16_t kElfMachine = 62;

/// Register numbers 0 to 15 are rax rdx rcx rbx rsi rdi rbp rsp r8..r15, 16 is the return address
/// (System V ABI, AMD64 supplement, figure 3.36).
inline constexpr unsigned kDwarfRegisterCount = 17;
inline constexpr unsigned kDwarfStackPointer = 7;
inline constexpr unsigned kDwarfFramePointer = 6;
inline constexpr unsigned kDwarfReturnAddress = 16;
/// The made-up register that stands for the length of scalable vectors: none.
inline constexpr unsigned kDwarfVectorLength = ~0U;
/// Is that a register which holds the return address until it is saved? (It is rip, a made-up one.)
inline constexpr bool kHasLinkRegister = false;

/// Where PTRACE_POKEUSER finds the pc in struct user; -1 where the kernel has no such request.
inline constexpr long kPcUserOffset = offsetof(struct ::user, regs.rip);
/// The register set with the mask of the bits in which a signed return address keeps its signature
/// (NT_ARM_PAC_MASK); -1 where there is no such thing.
inline constexpr int kSignatureMaskRegset = -1;
/// The register set that begins with the thread pointer; -1 where that is in Registers.
inline constexpr int kThreadPointerRegset = -1;
/// The register sets in which a program may keep a pointer, the general one first: NT_PRSTATUS,
/// NT_X86_XSTATE, NT_PRFPREG. The vector registers' halves are at multiples of 8: the layouts of
/// FXSAVE and XSAVE (Intel's manual, volume 1, section 13.4).
inline constexpr std::array<int, 3> kPointerRegsets{1, 0x202, 2};
/// The bits of a data pointer that are part of the address.
inline constexpr std::uint64_t kDataAddressBits = ~0ULL;
/// Requests that read and write Registers in the layout of who asks; -1 where there is none. Those
/// for a register set (PTRACE_GETREGSET) have the layout of a 32-bit thread's, and are slower (by
/// some 5% of a stop).
inline constexpr int kGetRegistersRequest = 12; // PTRACE_GETREGS
inline constexpr int kSetRegistersRequest = 13; // PTRACE_SETREGS
/// The registers of a perf sample, as bits of perf_event_attr::sample_regs_user: ax bx cx dx si di
/// bp sp ip flags cs ss, then (behind ds es fs gs) r8..r15 (arch/x86/include/uapi/asm/perf_regs.h).
inline constexpr std::uint64_t kPerfRegisterMask = 0xff0fff;
inline constexpr std::size_t kPerfRegisterCount = 20;
/// Every instruction starts at a multiple of this.
inline constexpr std::size_t kInstructionAlignment = 1;

/// int3
inline constexpr std::array<std::uint8_t, 1> kBreakpointBytes{0xcc};
/// syscall
inline constexpr std::array<std::uint8_t, 2> kSyscallBytes{0x0f, 0x05};
/// syscall; then a jump to itself, where a thread waits for its registers if we die meanwhile
inline constexpr std::array<std::uint8_t, 4> kParkingBytes{0x0f, 0x05, 0xeb, 0xfe};
/// syscall; then rt_sigreturn(2), for a thread whose sp is at a return_frame(): mov $15,%eax;
/// syscall
inline constexpr std::array<std::uint8_t, 9> kReturningBytes{0x0f, 0x05, 0xb8, 0x0f, 0,
                                                             0,    0,    0x0f, 0x05};
/// clone(2) for us: the parent goes on to rt_sigreturn(2) as above, and the child, were it let go,
/// ends. syscall; test %eax,%eax; mov $15,%eax; jne 1f; mov $60,%al; 1: syscall
inline constexpr std::array<std::uint8_t, 15> kCopyingBytes{
    0x0f, 0x05, 0x85, 0xc0, 0xb8, 0x0f, 0, 0, 0, 0x75, 0x02, 0xb0, 0x3c, 0x0f, 0x05};
/// TrapHandlerCode::way_back.
inline constexpr std::size_t kWayBackBytes = 23;
/// NT_X86_XSTATE, and what else a thread needs of which rt_sigreturn(2) would not know:
/// NT_X86_SHSTK begins with the shadow stack's pointer.
inline constexpr int kVectorRegset = 0x202;
inline constexpr int kShadowStackRegset = 0x204;
/// A register set that a system call discards: none.
inline constexpr std::array<DiscardedRegset, 0> kDiscardedRegsets{};
inline constexpr std::size_t kDiscardedBytes = 0;
inline constexpr int kSystemCallRegset = -1;
/// Whoever sets a handler tells the kernel what it returns to (SA_RESTORER).
inline constexpr bool kHandlersNeedRestorer = true;
/// The result of a system call does not take an argument's place (rdi).
inline constexpr bool kResultReplacesArgument = false;
/// What lld fills the space behind code with; other linkers take zeros.
inline constexpr std::array<std::uint8_t, 1> kPaddingBytes{0xcc};
/// x86 instructions have at most 15 bytes.
inline constexpr std::size_t kMaxInstructionBytes = 15;
/// Room for a relocated call through memory and two absolute jumps.
inline constexpr std::size_t kSlotBytes = 64;
/// RIP-relative operands reach 2 GiB; less a page of margin.
inline constexpr std::uint64_t kDisplacedReach = (1ULL << 31) - 4096;
/// Operands lie up to the size of a module away.
inline constexpr std::uint64_t kDisplacedReserve = kDisplacedReach / 2;
/// struct ucontext up to and including the general registers: uc_flags, uc_link, uc_stack (40
/// bytes), then gregs[23].
inline constexpr std::size_t kSignalFrameSize = 40 + 23 * 8;
/// gregs[REG_RIP].
inline constexpr std::size_t kSignalFramePcOffset = 40 + 16 * sizeof(long);
/// The word before the ucontext is the address of the restorer.
inline constexpr std::size_t kSignalFrameReturnWord = 8;
/// The siginfo, behind the ucontext: after gregs come fpstate, reserved1[8] and the signal mask.
inline constexpr std::size_t kSignalFrameInfoOffset = kSignalFrameSize + 10 * sizeof(long);
inline constexpr std::size_t kSignalFrameMaskOffset = kSignalFrameInfoOffset - sizeof(long);

/// jmp rel32
inline constexpr std::size_t kEntryJumpBytes = 5;
inline constexpr std::size_t kMaxEntryBytes = kEntryJumpBytes - 1 + kMaxInstructionBytes;
/// Where the agent goes for a trap: the rest of the registers get what they had at the function's
/// entry, then comes a no-op, then a jump to the original.
inline constexpr std::size_t kThunkTrapExitAt = 17;
inline constexpr std::size_t kThunkTrapAt = 22; ///< the no-op
/// The same without a no-op.
inline constexpr std::size_t kThunkPassExitAt = 28;

} // namespace x86_64
} // namespace memleax::arch
