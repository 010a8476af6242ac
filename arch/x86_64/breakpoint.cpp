// SPDX-License-Identifier: GPL-3.0-or-later
#include <csignal>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

bool is_breakpoint(std::span<const std::uint8_t> code) {
    return !code.empty() && code[0] == kBreakpointBytes[0];
}

bool is_breakpoint_signal_code(int si_code) {
    // arch/x86/kernel/traps.c, do_int3_user: do_trap(X86_TRAP_BP, SIGTRAP, "int3", regs, 0, 0,
    // NULL), which sends it by force_sig: SI_KERNEL.
    return si_code == SI_KERNEL;
}

const char* reason_against_breakpoint(std::span<const std::uint8_t> /*code*/) {
    return nullptr;
}

} // namespace x86_64
} // namespace memleax::arch
