// SPDX-License-Identifier: GPL-3.0-or-later
/// sigaction(3)'s struct sigaction in the target's memory, which is not the kernel's: the same in
/// glibc (bits/sigaction.h) and musl (include/signal.h), on each CPU.
#pragma once

#include <optional>

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// What the kernel would be told by the sigaction(3) whose entry that is. Nothing if it cannot be
/// read, or if it is a handler
/// and the code that those return to is not found.
std::optional<RecoveryRecord::SignalAction> read_library_action(RemoteMemory& memory, RemoteAddr at,
                                                                CodeAddr entry);

/// As sigaction(3) does. False if it cannot be written.
bool write_library_action(RemoteMemory& memory, RemoteAddr at,
                          const RecoveryRecord::SignalAction& action);

} // namespace memleax
