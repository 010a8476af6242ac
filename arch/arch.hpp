// SPDX-License-Identifier: GPL-3.0-or-later
/// The whole contract of a CPU. arch/x86_64/ and arch/aarch64/ hold the same file names; the build
/// puts one of them on the include path. Code outside arch/ asks by meaning and never by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

#include "arch_registers.hpp" // struct Registers, kDwarfRegisterCount, kBreakpointBytes, ...

namespace memleax::arch {
inline namespace MEMLEAX_CPU {

// ---- Registers (the struct itself is what PTRACE_GETREGSET NT_PRSTATUS gives) ------------------

[[nodiscard]] CodeAddr pc(const Registers& regs);
void set_pc(Registers& regs, CodeAddr pc);
[[nodiscard]] RemoteAddr sp(const Registers& regs);
void set_sp(Registers& regs, RemoteAddr sp);
/// Does the thread execute code of this CPU's own 64-bit instruction set? Else (a 32-bit program,
/// or a 64-bit one in a 32-bit code segment, as Wine's) nothing of the other functions holds, and
/// no system call can be made for us.
[[nodiscard]] bool executes_native_code(const Registers& regs);
/// The n-th (from 0) integer or pointer argument, at a function's first instruction.
[[nodiscard]] std::uint64_t argument(const Registers& regs, unsigned n);
void set_argument(Registers& regs, unsigned n, std::uint64_t value);
/// The integer or pointer result, just after a function has returned.
[[nodiscard]] std::uint64_t return_value(const Registers& regs);
/// The register that DWARF numbers so (psABI table of DWARF register numbers); 0 for those not
/// kept.
[[nodiscard]] std::uint64_t dwarf_register(const Registers& regs, unsigned number);

/// The user registers of a perf sample (perf_event_open(2), PERF_SAMPLE_REGS_USER), which has those
/// of kPerfRegisterMask, lowest bit first. The others are 0.
[[nodiscard]] Registers
registers_from_perf(std::span<const std::uint64_t, kPerfRegisterCount> values);

/// A pointer to data, as what it points to is told from others: without a tag (arm64: top byte
/// ignore, MTE).
[[nodiscard]] constexpr RemoteAddr data_address(std::uint64_t pointer) {
    return RemoteAddr(pointer & kDataAddressBits);
}

// ---- Calls --------------------------------------------------------------------------------------

/// At a function's first instruction: the return address if it is in a register (arm64's x30),
/// nothing if it is the word on top of the stack (x86_64).
[[nodiscard]] std::optional<CodeAddr> return_address_in_register(const Registers& regs);
/// At a function's first instruction: the stack pointer that the caller will see after the return.
[[nodiscard]] RemoteAddr sp_after_return(const Registers& regs);

// ---- Breakpoints --------------------------------------------------------------------------------

/// After a breakpoint instruction was executed: where it stands (x86_64: pc - 1; arm64: pc).
[[nodiscard]] CodeAddr executed_breakpoint(const Registers& regs);

/// Does code begin with a breakpoint instruction, whoever has put it there?
[[nodiscard]] bool is_breakpoint(std::span<const std::uint8_t> code);

/// Is this the si_code that the kernel gives to the SIGTRAP of a breakpoint instruction?
[[nodiscard]] bool is_breakpoint_signal_code(int si_code);

/// Why no breakpoint may stand on the first instruction of `code`, nor a thread be stepped over it;
/// null if one may.
[[nodiscard]] const char* reason_against_breakpoint(std::span<const std::uint8_t> code);

/// Below this much under the stack pointer nothing of the thread's is kept (x86_64 psABI 3.2.2, the
/// red zone; arm64 has none).
inline constexpr std::int64_t kRedZone = 128;

// ---- Remote system calls ------------------------------------------------------------------------

/// Makes the thread's next instruction, which must be kSyscallBytes, perform this call, and keeps
/// the kernel from "restarting" the call that the thread was interrupted in.
void prepare_system_call(Registers& regs, CodeAddr instruction, long number,
                         std::span<const std::uint64_t> arguments);
/// For kCopyingBytes, after prepare_system_call(): what the code behind the call needs.
void prepare_copying(Registers& regs);
/// In a stop at the entry of a system call (ptrace(2), "Syscall-stops"): its number, and its n-th
/// argument from 0.
[[nodiscard]] long system_call_number(const Registers& regs);
[[nodiscard]] std::uint64_t system_call_argument(const Registers& regs, unsigned n);
/// The number of the system call that the thread has just ended with this errno, in a stop on its
/// way back from the kernel.
[[nodiscard]] std::optional<long> call_that_failed_with(const Registers& regs, int errnum);
/// Puts such a thread back before its call, with the same arguments. The instruction before the pc
/// must be kSyscallBytes. `first_argument` counts where the result takes its place
/// (kResultReplacesArgument).
void begin_system_call_again(Registers& regs, std::uint64_t first_argument);
/// A thread that begin_system_call_again() has put there: ends the call with this errno, unmade.
void fail_system_call(Registers& regs, int errnum);
/// A thread that was interrupted in a system call and now stands before it: if the kernel keeps
/// that call's time limit (restart_syscall(2)), makes it go on until then. To be used where the
/// registers of such a thread are replaced for a while, after which the kernel does not do it
/// itself.
void continue_interrupted_call(Registers& regs);
/// The same thread, but a signal's handler runs next: if the call ends with EINTR then, whatever
/// the handler's flags are (signal(7)), ends it so.
void end_interrupted_call(Registers& regs);
/// The result of the call; see is_errno().
[[nodiscard]] long system_call_result(const Registers& regs);
/// Does this register set of kDiscardedRegsets hold something that the thread's next system call
/// would discard? False if the thread stands in a call.
[[nodiscard]] bool would_be_discarded(std::span<const std::byte> regset);

// ---- Our SIGTRAP handler in the target ----------------------------------------------------------

/// The handler's code, and what stands where in it: offsets in bytes. Position-independent, to be
/// copied into the target; `data` is where TrapHandlerData begins there, and the code ends.
struct TrapHandlerCode {
    std::span<const std::uint8_t> code;
    std::size_t entry = 0;
    std::size_t restorer = 0; ///< rt_sigreturn, for sa_restorer
    /// The same where the handler runs with the interrupted code's own mask: it goes back to that
    /// by itself then. 0: it cannot.
    std::size_t unblocked_restorer = 0;
    /// A system call instruction, and behind it an endless loop: whoever executes it stays there
    /// until its registers are put back.
    std::size_t parking = 0;
    /// A system call instruction, and behind it kWayBackBytes in all: whoever executes it without a
    /// tracer leaves the call's result at kWayBackDataAt bytes from the code's beginning, and gets
    /// its registers from the return_frame() that is kReturnFrameAt bytes further on.
    std::size_t way_back = 0;
    /// Code up to `calls_end` that makes the system calls of the table at kCallTableAt one after
    /// the other, and then sends its thread the signal that the table's end names: with that
    /// signal the thread stops for its tracer, at `calls_end`. Without a tracer it gets its
    /// registers back as above, if it ignores the signal.
    std::size_t calls = 0;
    std::size_t calls_end = 0;
    std::size_t data = 0;
};
/// In the next page, of whatever size: what is there is written to.
inline constexpr std::size_t kWayBackDataAt = std::size_t{64} * 1024;
/// So much: a frame has up to 12 KiB (AMX).
inline constexpr std::size_t kWayBackDataBytes = std::size_t{16} * 1024;
/// From there on: a byte that the handler sets as soon as a hit has had no tracer.
inline constexpr std::size_t kUnattendedAt = 8;
/// And one that it sets as soon as a thread waits there (kSlotHolds).
inline constexpr std::size_t kHeldAt = kUnattendedAt + 2;
/// And one that the tracer sets once the target may write there. A child that was forked before
/// has the code, and may not.
inline constexpr std::size_t kWritableAt = kUnattendedAt + 3;
/// A system call in the table, and what came of it.
struct TableCall {
    std::int64_t number = 0; ///< kEndOfCalls: the end, with the signal as the first argument
    std::array<std::uint64_t, 6> arguments{};
    std::int64_t result = 0; ///< see is_errno()
};
static_assert(sizeof(TableCall) == 64);
inline constexpr std::int64_t kEndOfCalls = -1;
inline constexpr std::size_t kCallTableAt = 64;
inline constexpr std::size_t kReturnFrameAt = 1024;
/// So many, and the end.
inline constexpr std::size_t kMostCalls = (kReturnFrameAt - kCallTableAt) / sizeof(TableCall) - 1;
[[nodiscard]] TrapHandlerCode trap_handler_code();

/// What the handler reads. `region_count` AddrRanges of slots follow. Each slot's last 8 bytes are
/// the address of the instruction that it stands for, with kSlotHolds or without.
struct TrapHandlerData {
    std::uint64_t target_handler = 0; ///< the target's own sigaction: sa_handler
    std::uint64_t target_mask = 0;    ///< sa_mask
    std::uint64_t target_flags = 0;   ///< sa_flags
    std::uint64_t region_count = 0;
};

/// In the address at a slot's end: a thread that gets here unwatched, at the entry of a function
/// whose first argument is SIGTRAP, waits for about a second for the original code to be put back.
inline constexpr std::uint64_t kSlotHolds = 1ULL << 63;

/// The bytes of a slot that code may take; the address follows.
inline constexpr std::size_t kSlotCodeBytes = kSlotBytes - sizeof(std::uint64_t);

// ---- Signal frames: what the kernel pushes before a handler runs --------------------------------

/// Do these bytes begin the code that a signal handler returns to (rt_sigreturn)? For C libraries
/// whose restorer has no unwind table.
[[nodiscard]] bool is_signal_return_code(std::span<const std::byte> code);
/// Size of the part of the frame that holds the interrupted registers, from sp on at the restorer.
inline constexpr std::size_t kSignalFrameBytes = kSignalFrameSize;
/// kSignalFramePcOffset is where the interrupted pc stands in it.
/// kSignalFrameInfoOffset: where its siginfo does; kSignalFrameMaskOffset: the mask that the return
/// from the handler brings back. kSignalFrameReturnWord: so many bytes before it stands the address
/// of the restorer; 0 where nothing but the frame itself tells it.

/// So many bytes of it are enough for all that is asked here.
inline constexpr std::size_t kSignalFrameReadBytes = 640;

/// May this be such a frame? (Read from sp on, at least kSignalFrameInfoOffset + a siginfo bytes.)
[[nodiscard]] bool looks_like_signal_frame(std::span<const std::byte> frame);
/// Is the thread about to execute a signal handler's first instruction, or one of the next few?
/// `frame`: what is on the stack from kSignalFrameReturnWord bytes above sp on, as above.
[[nodiscard]] bool begins_signal_handler(const Registers& regs, std::span<const std::byte> frame);
/// The interrupted context's registers out of a frame that was read from sp on; nothing if short.
[[nodiscard]] std::optional<Registers>
registers_from_signal_frame(std::span<const std::byte> frame);
/// The other way round: from where sp points when rt_sigreturn(2) is called, `at`, a multiple of
/// 64. A thread gets these registers and this signal mask by it, and makes anew the call that it
/// was interrupted in, which the kernel then knows nothing of (a time limit begins anew).
/// `vector_registers`: its register set kVectorRegset; `discarded`: the one of kDiscardedRegsets
/// that would_be_discarded(), if any. Empty if those are not understood, or have no room.
struct RegsetBytes {
    int set = 0; ///< 0: none
    std::span<const std::byte> bytes;
};
[[nodiscard]] std::vector<std::uint8_t> return_frame(const Registers& regs,
                                                     std::uint64_t signal_mask,
                                                     std::span<const std::byte> vector_registers,
                                                     RemoteAddr at, RegsetBytes discarded = {});

// ---- Frames without unwind tables ---------------------------------------------------------------

/// What to read around a pc for the next function: bytes before it and from it on.
inline constexpr std::size_t kCodeBefore = 16;
inline constexpr std::size_t kCodeAt = 48;
/// Where the caller is, as the instruction at the pc itself tells it (one of a function's first,
/// before it has its frame pointer; its return; linkage stubs), with the caller's frame pointer
/// still in its register.
struct FrameEdge {
    std::int32_t cfa_offset = 0; ///< CFA - sp
    /// The return address is at CFA + this; nothing: it is in its register (arm64's x30).
    std::optional<std::int32_t> return_address_offset;
    friend bool operator==(const FrameEdge&, const FrameEdge&) = default;
};
/// At an instruction that no unwind table covers. Nothing: a frame pointer, if any, is in place.
/// `before` ends, and `at` begins, at the pc; both may be short.
[[nodiscard]] std::optional<FrameEdge> frame_edge(std::span<const std::byte> before,
                                                  std::span<const std::byte> at);
/// In a frame that keeps a frame pointer: CFA - fp; the caller's fp is at fp, the return address is
/// the word before the CFA (x86_64) or behind the saved fp (arm64): at fp + 8 for both.
inline constexpr std::int32_t kFramePointerCfaOffset = 16;

// ---- Displaced instructions ---------------------------------------------------------------------

/// A place within a slot at which a thread can be seen, and what the same moment looks like in the
/// original code: pc == original, sp == sp + sp_adjust.
struct SlotPoint {
    std::uint8_t offset = 0; ///< from the slot's start
    CodeAddr original;
    std::int8_t sp_adjust = 0;
};

/// An instruction moved out of line: what it is there, and how to find the way back.
struct DisplacedInstruction {
    std::vector<std::uint8_t>
        code; ///< at most kSlotCodeBytes: the instruction(s), then the jump back
    std::uint8_t original_length = 0; ///< bytes of the instruction in the original code
    std::vector<SlotPoint> points;    ///< every instruction boundary within `code`, in order
};

/// Relocates the first instruction of `bytes`, which stands at `from`, so that it has the same
/// effect when executed at `slot`. Pure: bytes in, bytes out. Fails with a reason for what cannot
/// be moved (an operand out of reach, an instruction that reads its own pc in a way we do not
/// know).
[[nodiscard]] Result<DisplacedInstruction>
displace(CodeAddr from, std::span<const std::uint8_t> bytes, CodeAddr slot);

/// How far a slot may be from the instruction that it holds. What that refers to lies further away,
/// as a rule by no more than the reserve.
inline constexpr std::uint64_t kSlotReach = kDisplacedReach - kDisplacedReserve;

// ---- Functions that begin with a jump of ours (docs/engines.md) ------------------

/// kEntryJumpBytes: how long such a jump is, kMaxEntryBytes: the instructions that it may take the
/// place of.

/// What displace_entry() says of a fault behind the first instruction.
inline constexpr const char* kFaultBehindFirst = "behind its first instruction may be a fault";
/// displace(), of all the instructions that a jump at a function's entry takes the place of. `code`
/// begins with them; kMaxEntryBytes are always enough. Fails as well for those behind the first
/// that read or write memory by a pointer: a fault there is delivered in the slot, as there is no
/// way back from it, and a handler may know the function by the pc.
[[nodiscard]] Result<DisplacedInstruction>
displace_entry(CodeAddr entry, std::span<const std::uint8_t> code, CodeAddr slot);
/// What keeps a jump from the entry of this function: code that leads to the middle of what is
/// moved, or that cannot be read. Null if nothing does. `code` is all of it.
[[nodiscard]] const char* reason_against_entry_jump(CodeAddr entry,
                                                    std::span<const std::uint8_t> code);

/// In code of which nobody knows where an instruction begins: calls `each` for every direct branch
/// or call that may be in `code`, which stands at `from`, and leads into this range, with where it
/// leads. Some of them are none. x86_64's short branches (rel8) are not among them.
void for_each_branch_into(AddrRange inside, CodeAddr from, std::span<const std::uint8_t> code,
                          const std::function<void(CodeAddr target)>& each);

using EntryJump = std::array<std::uint8_t, kEntryJumpBytes>;
/// The jump from there, where `code` is; nothing if that is out of reach.
[[nodiscard]] std::optional<EntryJump>
entry_jump(CodeAddr entry, std::span<const std::uint8_t> code, CodeAddr target);
/// A jump in code of ours, which is one instruction.
[[nodiscard]] std::optional<EntryJump> plain_jump(CodeAddr from, CodeAddr target);

/// A function's way into the agent, kThunkBytes of code and data: the agent's Function follows the
/// code. kThunkTrapExitAt, kThunkTrapAt, kThunkPassExitAt: places in it (arch_registers.hpp).
inline constexpr std::size_t kThunkBytes = 128;
inline constexpr std::size_t kThunkFunctionAt = 40;
/// `stub` is where the agent's code begins in the target.
[[nodiscard]] std::array<std::uint8_t, kThunkFunctionAt> thunk_code(CodeAddr thunk, CodeAddr stub,
                                                                    CodeAddr original);
/// In place of a thunk, in front of sigaction(3): a call whose first argument, an int, is SIGTRAP
/// comes to kThunkTrapAt, and from there to the original as well; all others go there at once.
/// Nothing of it is the agent's.
///
/// One that only asks is answered without a trap if the byte at kGateAnswersAt
/// is not 0, and the kernel says that the word at kGateHandlerAt is the handler: with SIG_DFL, no
/// mask and no flags.
[[nodiscard]] std::array<std::uint8_t, kThunkBytes> gate_code(CodeAddr gate, CodeAddr original);
inline constexpr std::size_t kGateAnswersAt = 104;
inline constexpr std::size_t kGateHandlerAt = 112;

/// What tells threads apart, to the agent and in the C libraries; where kThreadPointerRegset has
/// it, 0. StoppedThread::thread_pointer() knows either way.
[[nodiscard]] std::uint64_t thread_pointer(const Registers& regs);
/// Does the kernel let the agent ask the CPU for it (ThreadPointerFrom::cpu)?
[[nodiscard]] bool agent_may_ask_cpu();
/// A stopped thread that was about to execute `code` at its pc has got a SIGSEGV. Was that the
/// agent's read of a thread pointer? Then it is led behind it, as if that were 0.
[[nodiscard]] bool after_failed_pointer_read(std::span<const std::uint8_t> code, Registers* regs);
/// So many bytes tell.
inline constexpr std::size_t kPointerReadBytes = 9;

} // namespace MEMLEAX_CPU
} // namespace memleax::arch
