// SPDX-License-Identifier: GPL-3.0-or-later
/// What the agent asks its CPU, in the target: freestanding.
#pragma once

#include <cstdint>

namespace memleax::arch {
inline namespace aarch64 {

/// The calling thread's; see thread_pointer() and agent_knows_threads() in arch.hpp.
__attribute__((always_inline)) inline std::uint64_t agent_thread_pointer() {
    return 0; // agent_stub() has no code yet
}

} // namespace aarch64
} // namespace memleax::arch
