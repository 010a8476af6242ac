// SPDX-License-Identifier: GPL-3.0-or-later
/// What tests that are about every CPU must know of this one.
#pragma once

#include <cstdint>

#include "arch.hpp"

namespace memleax::test {

/// At a function's first instruction: CFA - sp, and whether the return address is in a register.
inline constexpr std::int64_t kEntryCfaOffset = 8;

/// How many functions of the vDSO have unwind tables, at least.
inline constexpr unsigned kVdsoFunctionsWithTables = 3;

inline void set_frame_pointer(arch::Registers& regs, std::uint64_t fp) {
    regs.rbp = fp;
}

/// As a call does: the thread stands at the callee's first instruction.
template <class Memory>
void call(arch::Registers& regs, Memory& memory, std::uint64_t return_address) {
    regs.rsp -= sizeof return_address;
    memory.put(regs.rsp, return_address);
}

/// The part of a signal frame that a walk needs, where sp points to at the restorer.
template <class Memory>
void put_signal_frame(Memory& memory, std::uint64_t at, std::uint64_t sp, std::uint64_t pc) {
    constexpr std::uint64_t kGregs = 40; // r8.. ; rsp is the 16th, rip the 17th
    memory.put(at + kGregs + 15 * 8, sp);
    memory.put(at + kGregs + 16 * 8, pc);
}

} // namespace memleax::test
