// SPDX-License-Identifier: GPL-3.0-or-later
/// Puts a target back whose tracer has died: the guardian's work.
#pragma once

#include <memory>

#include "memleax/error.hpp"
#include "memleax/recovery_record.hpp"

namespace memleax {

/// The first and urgent part: the original code, without attaching. The target may run, and may
/// even be traced by the dying one.
Result<void> restore_code(const RecoveryRecord& record);

/// Everything else, by a thread that ends afterwards (see Target). Fails if the process is gone,
/// another one by now, or may not be traced.
Result<void> restore_process(const std::shared_ptr<RecoveryRecord>& record);

/// Children that nobody got to: forked in the moment of the tracer's death, or after it. `before`
/// is what their parent's record told before it was restored. By a thread that ends afterwards.
void restore_children(const RecoveryRecord& before);

} // namespace memleax
