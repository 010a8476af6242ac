// SPDX-License-Identifier: GPL-3.0-or-later
/// What tests that are about every CPU must know of this one.
#pragma once

#include <cstdint>

#include "arch.hpp"

namespace memleax::test {

/// At a function's first instruction: CFA - sp, and whether the return address is in a register.
inline constexpr std::int64_t kEntryCfaOffset = 0;

/// How many functions of the vDSO have unwind tables, at least (the kernel builds it without them).
inline constexpr unsigned kVdsoFunctionsWithTables = 0;

inline void set_frame_pointer(arch::Registers& regs, std::uint64_t fp) {
    regs.x[29] = fp;
}

/// As a call does: the thread stands at the callee's first instruction.
template <class Memory>
void call(arch::Registers& regs, Memory& /*memory*/, std::uint64_t return_address) {
    regs.x[30] = return_address;
}

/// The part of a signal frame that a walk needs, where sp points to at the restorer.
template <class Memory>
void put_signal_frame(Memory& memory, std::uint64_t at, std::uint64_t sp, std::uint64_t pc) {
    constexpr std::uint64_t kSp = 128 + 176 + 8 + 31 * 8; // siginfo, up to the context, fault, x0..
    memory.put(at + kSp, sp);
    memory.put(at + kSp + 8, pc);
}

} // namespace memleax::test
