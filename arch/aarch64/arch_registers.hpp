// SPDX-License-Identifier: GPL-3.0-or-later
/// aarch64: the register set and the constants of arch.hpp. Include arch.hpp instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#define MEMLEAX_CPU aarch64

namespace memleax::arch {
inline namespace aarch64 {

/// struct user_pt_regs (arch/arm64/include/uapi/asm/ptrace.h), not by its name: this folder's code
/// is built on other CPUs, too, for its tests.
struct Registers {
    std::uint64_t x[31];
    std::uint64_t sp;
    std::uint64_t pc;
    std::uint64_t pstate;
};

/// A register set that a system call discards; this process's auxiliary vector (getauxval(3)) has
/// the bit `capability` in the entry `entry` if the machine has it.
struct DiscardedRegset {
    int set;
    unsigned long entry;
    unsigned long capability;
};

inline constexpr const char* kName = "aarch64";
/// EM_AARCH64.
inline constexpr std::uint16_t kElfMachine = 183;

/// Numbers 0 to 30 are x0 to x30, 31 is sp (DWARF for the Arm 64-bit Architecture, section 4.1).
inline constexpr unsigned kDwarfRegisterCount = 32;
inline constexpr unsigned kDwarfStackPointer = 31;
inline constexpr unsigned kDwarfFramePointer = 29;
inline constexpr unsigned kDwarfReturnAddress = 30;
/// VG: the length of SVE's vectors, in 64-bit words.
inline constexpr unsigned kDwarfVectorLength = 46;
/// x30 holds the return address until it is saved.
inline constexpr bool kHasLinkRegister = true;

/// No struct user that PTRACE_POKEUSER could write to, and no PTRACE_GETREGS.
inline constexpr long kPcUserOffset = -1;
inline constexpr int kGetRegistersRequest = -1;
inline constexpr int kSetRegistersRequest = -1;
/// The registers of a perf sample, as bits of perf_event_attr::sample_regs_user: x0 to x29, lr, sp,
/// pc (arch/arm64/include/uapi/asm/perf_regs.h).
inline constexpr std::uint64_t kPerfRegisterMask = (1ULL << 33) - 1;
inline constexpr std::size_t kPerfRegisterCount = 33;
/// NT_ARM_PAC_MASK: struct user_pac_mask {u64 data_mask, insn_mask}.
inline constexpr int kSignatureMaskRegset = 0x406;
/// NT_ARM_TLS: tpidr_el0, then tpidr2_el0 where there is one.
inline constexpr int kThreadPointerRegset = 0x401;
/// The register sets in which a program may keep a pointer, the general one first: NT_PRSTATUS,
/// NT_PRFPREG. The vector registers' halves are at multiples of 8 (struct user_fpsimd_state).
inline constexpr std::array<int, 2> kPointerRegsets{1, 2};
/// Without the top byte, which the CPU ignores in user space's pointers to data (TBI), and in which
/// MTE keeps its tags.
inline constexpr std::uint64_t kDataAddressBits = (1ULL << 56) - 1;
inline constexpr std::size_t kInstructionAlignment = 4;

/// brk #0
inline constexpr std::array<std::uint8_t, 4> kBreakpointBytes{0x00, 0x00, 0x20, 0xd4};
/// svc #0
inline constexpr std::array<std::uint8_t, 4> kSyscallBytes{0x01, 0x00, 0x00, 0xd4};
/// svc #0; b . where a thread waits for its registers if we die meanwhile
inline constexpr std::array<std::uint8_t, 8> kParkingBytes{0x01, 0, 0, 0xd4, 0, 0, 0, 0x14};
/// svc #0; then rt_sigreturn(2), for a thread whose sp is at a return_frame(): mov x8,#139; svc #0
inline constexpr std::array<std::uint8_t, 12> kReturningBytes{0x01, 0,    0,    0xd4, 0x68, 0x11,
                                                              0x80, 0xd2, 0x01, 0,    0,    0xd4};
/// clone(2) for us: the parent goes on to rt_sigreturn(2) as above, and the child, were it let go,
/// ends. svc #0; cmp x0,#0; csel x8,x10,x11,ne; svc #0 (prepare_copying() sets x10, x11)
inline constexpr std::array<std::uint8_t, 16> kCopyingBytes{
    0x01, 0, 0, 0xd4, 0x1f, 0, 0, 0xf1, 0x48, 0x11, 0x8b, 0x9a, 0x01, 0, 0, 0xd4};
/// TrapHandlerCode::way_back.
inline constexpr std::size_t kWayBackBytes = 24;
/// NT_PRFPREG, and what else a thread needs of which rt_sigreturn(2) would not know: NT_ARM_GCS
/// begins with the features in use.
inline constexpr int kVectorRegset = 2;
inline constexpr int kShadowStackRegset = 0x410;
/// SVE's registers, which hold those of kVectorRegset, too. A system call leaves only these of
/// them, and ends SME's streaming mode (Documentation/arch/arm64/sve.rst and sme.rst). NT_ARM_SVE
/// if the auxiliary vector's AT_HWCAP has HWCAP_SVE; NT_ARM_SSVE, in use in streaming mode, if
/// AT_HWCAP2 has HWCAP2_SME. ZA outlives a call.
inline constexpr int kStreamingRegset = 0x40b;
inline constexpr std::array<DiscardedRegset, 2> kDiscardedRegsets{
    {{0x405, 16, 1UL << 22}, {kStreamingRegset, 26, 1UL << 23}}};
/// With the longest vectors, of 256 bytes: struct user_sve_header, z0 to z31, p0 to p15 and FFR,
/// fpsr and fpcr with padding (arch/arm64/include/uapi/asm/ptrace.h).
inline constexpr std::size_t kDiscardedBytes = 16 + 32 * 256 + 17 * 32 + 16;
/// NT_ARM_SYSTEM_CALL: the number of the call that the thread is in, -1 for none.
inline constexpr int kSystemCallRegset = 0x404;
/// Handlers return to the vDSO's code.
inline constexpr bool kHandlersNeedRestorer = false;
/// The result of a system call takes its first argument's place (x0): the kernel keeps that for
/// itself (orig_x0), and no ptrace request tells it.
inline constexpr bool kResultReplacesArgument = true;
/// What some linkers fill the space behind code with, others zeros.
inline constexpr std::array<std::uint8_t, 4> kPaddingBytes = kBreakpointBytes;
inline constexpr std::size_t kMaxInstructionBytes = 4;
/// Room for a conditional branch with both ways, or a literal load with its address.
inline constexpr std::size_t kSlotBytes = 64;
/// b reaches 128 MiB, less a page of margin. Indirect branches would meet BTI.
inline constexpr std::uint64_t kDisplacedReach = (1ULL << 27) - 4096;
/// Conditional branches reach 1 MiB; b and bl may lead further, within their module.
inline constexpr std::uint64_t kDisplacedReserve = 1ULL << 24;
/// struct rt_sigframe (arch/arm64/kernel/signal.c): siginfo (128 bytes), ucontext with uc_flags,
/// uc_link, uc_stack (40 bytes), uc_sigmask (128, padded), and from 176 on the sigcontext:
/// fault_address, x0..x30, sp, pc, pstate.
inline constexpr std::size_t kSignalFrameContextOffset = 128 + 176 + 8;
inline constexpr std::size_t kSignalFrameSize = kSignalFrameContextOffset + sizeof(Registers);
inline constexpr std::size_t kSignalFramePcOffset =
    kSignalFrameContextOffset + offsetof(Registers, pc);
inline constexpr std::size_t kSignalFrameInfoOffset = 0;
inline constexpr std::size_t kSignalFrameMaskOffset = 128 + 40;
/// The restorer's address is in x30, and not in the frame.
inline constexpr std::size_t kSignalFrameReturnWord = 0;

/// A landing pad, and b.
inline constexpr std::size_t kEntryJumpBytes = 8;
inline constexpr std::size_t kMaxEntryBytes = kEntryJumpBytes;
/// Places in a thunk: see thunk_code().
inline constexpr std::size_t kThunkTrapExitAt = 8;
inline constexpr std::size_t kThunkTrapAt = 8;
inline constexpr std::size_t kThunkPassExitAt = 12;

} // namespace aarch64
} // namespace memleax::arch
