// SPDX-License-Identifier: GPL-3.0-or-later
/// System calls that wait for a time.
#pragma once

#include <cstdint>
#include <optional>

#include "arch.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// How long a call waits, and what it ends with then.
struct CallLimit {
    std::int64_t ns;
    int errnum; ///< 0: with 0
};

/// Of a call that a thread has been interrupted in, with these registers. Nothing if it has no
/// limit, or one that stays where it is when the call begins anew (a time of day).
std::optional<CallLimit> limit_of(long call, const arch::Registers& regs, RemoteMemory& memory);

} // namespace memleax
