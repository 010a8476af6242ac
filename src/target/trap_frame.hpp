// SPDX-License-Identifier: GPL-3.0-or-later
/// Finds a thread that is in the target's own SIGTRAP handler, by the signal frame on its stack.
#pragma once

#include <csignal>
#include <cstdint>

#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

class Target;

inline constexpr std::uint64_t kTrapBit = signal_bit(SIGTRAP);

/// While the target's own handler for SIGTRAP (`action`) runs, SIGTRAP is blocked. Does this
/// stopped thread, with this signal mask, block it for that reason, and only until the handler
/// returns? The signal may be one that it sent itself, or that a breakpoint or a step of its own
/// raised.
[[nodiscard]] bool is_in_trap_handler(Target& target, Tid tid, std::uint64_t mask,
                                      const RecoveryRecord::SignalAction& action);

} // namespace memleax
