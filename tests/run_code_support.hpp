// SPDX-License-Identifier: GPL-3.0-or-later
/// Runs a piece of code in this process with all registers and flags chosen, and keeps what it
/// left.
#pragma once

#include <cstdint>

namespace memleax {

struct CpuState {
    /// In the order in which ModRM numbers them: rax rcx rdx rbx rsp rbp rsi rdi r8 .. r15.
    std::uint64_t general[16];
    std::uint64_t flags;
    alignas(16) std::uint8_t fx[512]; ///< fxsave64: xmm0 to xmm15 from 160 on (SDM vol. 1, 10.5.1)
};

} // namespace memleax

extern "C" {
extern memleax::CpuState memleax_test_in;
extern memleax::CpuState memleax_test_out;
extern std::uint32_t memleax_test_exit; ///< which of the ways out was taken
/// Sets all registers and flags to memleax_test_in and jumps to `code`, which must jump to one of
/// the ways out: they keep what it left in memleax_test_out, and return to enter's caller.
void memleax_test_enter(void* code);
void memleax_test_exit_next();
void memleax_test_exit_taken();
void memleax_test_exit_taken_back();
}
