// SPDX-License-Identifier: GPL-3.0-or-later
// Children have copies of what their parent had of ours, and nobody else knows of it.
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "attempt.hpp"
#include "memleax/base/log.hpp"
#include "memleax/engine/recovery.hpp"
#include "memleax/proc/exit_signal.hpp"
#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/process_copy.hpp"
#include "recorded_handler.hpp"

namespace memleax {

namespace {

/// Was it executing something for the dead one?
bool is_borrowed(Tid child, const RecoveryRecord& parents) {
    return parents.borrowed.tid.load() == child.value() ||
           parents.borrowed.tid_of_mask.load() == child.value();
}

/// What is to be put back in a child that has a copy of what its parent had; null if it has none.
std::shared_ptr<RecoveryRecord> record_of_child(Tid child, const RecoveryRecord& parents) {
    const auto info = try_read_process_info(child);
    const bool handler_is_there = look_for_handler(child, parents) == HandlersPlace::handler;
    if (!info || !(handler_is_there || is_borrowed(child, parents))) {
        return nullptr;
    }
    auto record = parents.copy_for(child.value(), info->start_time);
    if (!handler_is_there) { // it was the last that was to be taken out
        forget_handler(*record);
    }
    return record;
}

/// Calls `visit` for the children, and theirs, that have a copy of what `before` tells of.
void visit_copies(const RecoveryRecord& before, const std::set<Tid>& watched,
                  const std::function<void(const std::shared_ptr<RecoveryRecord>&)>& visit) {
    const Tid pid = pid_of(before);
    if (before.handler.empty()) {
        return;
    }
    for (const Tid thread : list_threads(pid)) {
        for (const Tid child : list_children(pid, thread)) {
            const auto visited = attempt([&]() -> Result<void> {
                if (has_exit_signal(child, ProcessCopy::kExitSignal)) { // it never runs, is dying
                    return {};
                }
                const auto record =
                    watched.contains(child) ? nullptr : record_of_child(child, before);
                if (record == nullptr || shares_memory(pid, child)) {
                    return {};
                }
                const auto childs = record->copy_for(child.value(), record->start_time);
                visit(record);
                visit_copies(*childs, watched, visit);
                return {};
            });
            if (!visited) {
                log_warning("child {}: {}", child.value(), visited.error().message());
            }
        }
    }
}

/// Nothing if there is nothing to restore. Its code is as it was by now:
/// restore_code_in_children().
void restore_child(const std::shared_ptr<RecoveryRecord>& record) {
    if (record == nullptr) {
        return;
    }
    if (const auto restored = restore_process(record); !restored) {
        (void)restore_jumps(*record);
        log_debug("child {}: {}", pid_of(*record).value(), restored.error().message());
    }
}

} // namespace

bool restore_borrowed_child(RecoveryRecord& before) {
    const Tid pid = pid_of(before);
    const Tid with_registers(before.borrowed.tid.load());
    const Tid child =
        with_registers.value() != 0 ? with_registers : Tid(before.borrowed.tid_of_mask.load());
    // One with the parent's memory is restored with it.
    const bool is_child = child.value() != 0 && !is_thread_of(pid, child) &&
                          program_identity(child) == program_identity(pid) &&
                          !shares_memory(pid, child);
    if (is_child) {
        restore_child(record_of_child(child, before));
    }
    before.borrowed.tid.store(0);
    before.borrowed.tid_of_mask.store(0);
    return is_child;
}

// Not their records: each takes a megabyte of addresses.
std::vector<FoundChild> restore_code_in_children(const RecoveryRecord& before,
                                                 const std::set<Tid>& watched) {
    std::vector<FoundChild> found;
    visit_copies(before, watched, [&found](const auto& record) {
        (void)restore_code(*record);
        found.push_back({pid_of(*record), record->start_time});
    });
    return found;
}

void restore_children(const RecoveryRecord& before, const std::set<Tid>& watched,
                      const std::vector<FoundChild>& found) {
    std::set<Tid> restored;
    visit_copies(before, watched, [&restored](const auto& record) {
        restore_child(record);
        restored.insert(pid_of(*record));
    });
    for (const auto& [pid, start_time] : found) {
        if (restored.contains(pid)) {
            continue;
        }
        const auto record = record_of_child(pid, before);
        if (record != nullptr && record->start_time == start_time) {
            restore_child(record);
        }
    }
}

} // namespace memleax
