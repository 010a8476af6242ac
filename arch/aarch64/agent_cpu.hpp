// SPDX-License-Identifier: GPL-3.0-or-later
/// What the agent asks its CPU, in the target: freestanding. And what its stub (agent_stub.S)
/// keeps.
#pragma once

#include <cstdint>

#include "thread_pointer_from.hpp"

namespace memleax::arch {
inline namespace aarch64 {

/// The registers at the watched function's entry, as the stub lays them out. x17 and x18 are
/// nobody's: a linker's veneer may use the one (AAPCS64, 6.1.1), and the agent leaves the other
/// alone.
struct AgentRegisters {
    std::uint64_t x[16];
    std::uint64_t in_x16; ///< the agent's Function, as the stub gets it
    std::uint64_t unused;
    std::uint64_t results[2]; ///< the stub's own
};

/// One of the first four arguments, from 0.
__attribute__((always_inline)) inline std::uint64_t& agent_argument(AgentRegisters& registers,
                                                                    int n) {
    return registers.x[n];
}
/// So many are still there when the call is over.
inline constexpr int kAgentKeptArguments = 4;

/// The calling thread's. Programs may always ask for it.
__attribute__((always_inline)) inline std::uint64_t
agent_thread_pointer(ThreadPointerFrom /*from*/) {
    std::uint64_t pointer = 0;
    asm volatile("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}

/// This will be written soon, and the reader's CPU may have it.
__attribute__((always_inline)) inline void agent_will_write(const void* at) {
    asm volatile("prfm pstl1keep, %a0" : : "p"(at));
}

/// The caller's stack pointer after the return, less that at the entry: the return address is in
/// x30.
inline constexpr std::uint64_t kAgentEntryBytes = 0;
/// Between the stub's frame (agent::Frame) and the stack pointer at the entry: the frame record.
inline constexpr std::uint64_t kAgentBehindFrame = 16;

/// Where a caller's return address is, from its CFA on; `offset` is what its rule says.
constexpr std::uint64_t agent_return_place(std::int32_t offset) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(offset));
}
/// A return address without its signature. xpaclri, which knows x30 only, is a no-op where there
/// are no signatures (Arm ARM, C6.2, XPAC).
__attribute__((always_inline)) inline std::uint64_t agent_stripped(std::uint64_t return_address) {
    register std::uint64_t x30 asm("x30") = return_address;
    asm("hint #7" : "+r"(x30));
    return x30;
}

} // namespace aarch64
} // namespace memleax::arch
