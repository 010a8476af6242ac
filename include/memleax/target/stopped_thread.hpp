// SPDX-License-Identifier: GPL-3.0-or-later
/// The ptrace requests about one thread that is in a ptrace-stop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// The register set of arch::kDiscardedRegsets that a thread's next system call would discard, as
/// ptrace(2) has it. Zeros: there is none.
struct DiscardedRegisters {
    std::int32_t set;
    std::uint32_t size;
    std::array<std::byte, arch::kDiscardedBytes> bytes;
};

/// Only a name: nothing is held, and a thread that has gone is no error, as with Target.
class StoppedThread {
  public:
    explicit StoppedThread(Tid tid) : tid_(tid) {}

    [[nodiscard]] bool get_registers(arch::Registers* regs) const;
    bool set_registers(const arch::Registers& regs) const;
    /// Is it in code of another instruction set (arch::executes_native_code())?
    [[nodiscard]] bool executes_foreign_code() const;
    /// Changes only the pc; `regs` are the thread's registers as just read, and are kept up to
    /// date.
    bool set_pc(arch::Registers* regs, CodeAddr pc) const;
    /// All registers in which a program may keep a pointer, those for vectors included, as words;
    /// also some that are none. Empty if the thread is gone.
    [[nodiscard]] std::vector<std::uint64_t> register_words() const;
    /// Its register set arch::kVectorRegset, as ptrace(2) has it; empty if there is none.
    [[nodiscard]] std::vector<std::byte> vector_registers() const;
    /// What a system call would take from it: to be read before, and put back after one that it has
    /// not made by itself. On a machine without such registers this makes no request.
    void get_discarded(DiscardedRegisters* discarded) const;
    bool set_discarded(const DiscardedRegisters& discarded) const;
    /// Does it keep its return addresses a second time (CET, GCS)?
    [[nodiscard]] bool has_shadow_stack() const;
    /// See arch::thread_pointer(); `regs` are the thread's. 0: nothing is known.
    [[nodiscard]] std::uint64_t thread_pointer(const arch::Registers& regs) const;
    /// The bits of a return address that are a signature (pointer authentication); 0 where the CPU
    /// knows no such thing.
    [[nodiscard]] std::uint64_t signature_mask() const;
    /// Has an instruction of the thread (a breakpoint, one that faults) raised a signal that it has
    /// not taken yet? An interrupt or a group-stop that comes at the same time is reported first
    /// (kernel/signal.c, get_signal), with the pc behind a breakpoint already. Resumed, the thread
    /// stops again before any other instruction, with the TrapStop or SignalStop.
    [[nodiscard]] bool has_pending_exception() const;
    /// Was the signal of this stop sent (kill, tgkill, sigqueue), and not raised by an instruction?
    [[nodiscard]] bool is_sent_signal() const;
    /// Was this SIGTRAP raised by a breakpoint instruction (and not by kill, a step, ...)?
    [[nodiscard]] bool is_breakpoint_trap() const;
    /// Bit n-1 for signal n.
    [[nodiscard]] std::optional<std::uint64_t> signal_mask() const;
    void set_signal_mask(std::uint64_t mask) const;
    /// Is it in sigsuspend, ppoll or their like, which put another mask in force for a while?
    [[nodiscard]] bool has_temporary_mask() const;

  private:
    Tid tid_;
};

} // namespace memleax
