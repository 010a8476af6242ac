// SPDX-License-Identifier: GPL-3.0-or-later
/// What the agent asks its CPU, in the target: freestanding. And what its stub (agent_stub.S)
/// keeps.
#pragma once

#include <cstdint>

#include "thread_pointer_from.hpp"

namespace memleax::arch {
inline namespace x86_64 {

/// The registers at the watched function's entry, as the stub lays them out.
struct AgentRegisters {
    std::uint64_t rax;
    std::uint64_t arguments[4]; ///< rdi, rsi, rdx, rcx
    std::uint64_t r8, r9, r10;
    std::uint64_t in_r11; ///< the agent's Function, as the stub gets it
    std::uint64_t r11;
};

/// One of the first four arguments, from 0.
__attribute__((always_inline)) inline std::uint64_t& agent_argument(AgentRegisters& registers,
                                                                    int n) {
    return registers.arguments[n];
}
/// Of these the first ones are still there when the call is over: the others' registers have its
/// result.
inline constexpr int kAgentKeptArguments = 2;

/// The calling thread's; 0: it is not known. A read of %fs:0 takes a fifth of rdfsbase's time, and
/// is one instruction, for after_failed_pointer_read() to recognize.
__attribute__((always_inline)) inline std::uint64_t agent_thread_pointer(ThreadPointerFrom from) {
    std::uint64_t pointer = 0;
    if (from == ThreadPointerFrom::memory) [[likely]] {
        asm volatile("mov %%fs:0, %0" : "=a"(pointer));
    } else if (from == ThreadPointerFrom::cpu) {
        asm volatile("rdfsbase %0" : "=r"(pointer));
    }
    return pointer;
}

/// This will be written soon, and the reader's CPU may have it. (CPUs that have rdfsbase, and not
/// this, take it for a no-op.)
__attribute__((always_inline)) inline void agent_will_write(const void* at) {
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
}

/// The caller's stack pointer after the return, less that at the entry: the return address is
/// there.
inline constexpr std::uint64_t kAgentEntryBytes = 8;
/// Between the stub's frame (agent::Frame) and the stack pointer at the entry: the caller's frame
/// pointer.
inline constexpr std::uint64_t kAgentBehindFrame = 8;

/// Where a caller's return address is, from its CFA on; `offset` is what its rule says.
constexpr std::uint64_t agent_return_place(std::int32_t /*offset*/) {
    return ~std::uint64_t{7}; // -8, always
}
/// A return address without its signature: there is none.
constexpr std::uint64_t agent_stripped(std::uint64_t return_address) {
    return return_address;
}

} // namespace x86_64
} // namespace memleax::arch
