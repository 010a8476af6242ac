// SPDX-License-Identifier: GPL-3.0-or-later
/// Puts a target back whose tracer has died: the guardian's work.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// The first and urgent part, without attaching: no call needs a tracer any more. What is left are
/// jumps, by which calls pass. The target may run, and may even be traced by the dying one.
Result<void> restore_code(const RecoveryRecord& record);

/// The jumps, too, without attaching: where restore_process() has failed, or has to wait.
Result<void> restore_jumps(const RecoveryRecord& record);

/// Everything else. Fails if the process is gone, another one by now, or may not be traced; throws
/// nothing. By a thread of its own; where none can be made, by the calling one, which keeps hold of
/// whoever was not stopped until its end.
Result<void> restore_process(const std::shared_ptr<RecoveryRecord>& record);

/// After restore_code_in_children(): the child that was executing something for the dead tracer, if
/// there is one: it can do nothing else before, and its parent may wait for it. `before` is what
/// the parent's record told before that was restored, and is told no more of it. True if there is
/// one.
bool restore_borrowed_child(RecoveryRecord& before);

/// A child that has a copy of what its parent had of ours.
struct FoundChild {
    Tid pid;
    std::uint64_t start_time; ///< ProcessInfo
};

/// restore_code() in children that nobody got to, after their parents': one that is about to set a
/// SIGTRAP handler waits for it about a second only (arch::kSlotHolds), and restore_process() of a
/// parent can take as long. Who they are.
std::vector<FoundChild> restore_code_in_children(const RecoveryRecord& before,
                                                 const std::set<Tid>& watched);

/// After restore_code_in_children(), and their parents: children that nobody got to, forked in the
/// moment of the tracer's death, or after it. `watched` have records of their own. Those that were
/// `found` then may have lost their parent since.
void restore_children(const RecoveryRecord& before, const std::set<Tid>& watched,
                      const std::vector<FoundChild>& found);

/// All of that for the tracer's processes, and for their children: what goes wrong with one is
/// told, and keeps nobody else from being put back. True if they are as they were. The caller runs
/// before others (run_before_others()) until nobody's code has anything of ours.
bool restore_all(const std::vector<std::shared_ptr<RecoveryRecord>>& records);

/// In the order in which they are to be restored: a parent may wait for its child by vfork, where
/// it cannot be stopped.
std::vector<std::shared_ptr<RecoveryRecord>>
children_first(std::vector<std::shared_ptr<RecoveryRecord>> records);

} // namespace memleax
