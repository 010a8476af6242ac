// SPDX-License-Identifier: GPL-3.0-or-later
/// Our handler for SIGTRAP, of which a recovery record tells: is it in the process?
#pragma once

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// The process that the record is of.
[[nodiscard]] inline Tid pid_of(const RecoveryRecord& record) {
    return Tid(record.pid.load());
}

/// What a process has where a record tells of a handler.
enum class HandlersPlace { handler, nothing_yet, something_else };

[[nodiscard]] HandlersPlace look_for_handler(Tid pid, const RecoveryRecord& record);
void forget_handler(RecoveryRecord& record);

} // namespace memleax
