// SPDX-License-Identifier: GPL-3.0-or-later
#include <csignal>

#include "arch.hpp"
#include "decoder.hpp"

namespace memleax::arch {
inline namespace aarch64 {

bool is_breakpoint(std::span<const std::uint8_t> code) {
    const auto word = first_word(code);
    return word && (*word & 0xffe0001f) == 0xd4200000; // brk #imm16
}

bool is_breakpoint_signal_code(int si_code) {
    // arch/arm64/kernel/debug-monitors.c, brk_handler: send_user_sigtrap(TRAP_BRKPT). A single step
    // gives TRAP_TRACE.
    return si_code == TRAP_BRKPT;
}

const char* reason_against_breakpoint(std::span<const std::uint8_t> code) {
    // An exception between the two clears the exclusive monitor: the store would fail whenever it
    // is tried, and the loop around it never end. Nor may the load be executed elsewhere: both must
    // be within 128 bytes, without a branch between them (Arm ARM, B2.17.5).
    const auto word = first_word(code);
    return word && is_exclusive(*word) ? "it is part of an exclusive access" : nullptr;
}

} // namespace aarch64
} // namespace memleax::arch
