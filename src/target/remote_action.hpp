// SPDX-License-Identifier: GPL-3.0-or-later
/// rt_sigaction(2) for SIGTRAP, performed by a stopped thread of the target.
#pragma once

#include <span>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_call.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

class Target;

/// `memory` is that of the process of `worker`: the target's, or that of a forked child or of a new
/// program. `set` and `get` may be null; `get` is what was in force before. Unchanged after a
/// failure. In a child the calls `also` are made with it, at the same cost.
Result<void> exchange_trap_action(Target& target, Tid worker, RemoteMemory& memory,
                                  const RecoveryRecord::SignalAction* set,
                                  RecoveryRecord::SignalAction* get,
                                  std::span<const RemoteCall> also = {});

} // namespace memleax
