// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "attempt.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/thread_priority.hpp"
#include "memleax/engine/recovery.hpp"
#include "memleax/proc/freezer.hpp"

namespace memleax {

namespace {

struct Orphan {
    std::shared_ptr<RecoveryRecord> record;
    /// What its children were copied from. Null if there is no memory for it.
    std::shared_ptr<RecoveryRecord> before;
    std::vector<FoundChild> children;
};

/// Does `work` for each orphan.
template <typename Work> void for_every(std::vector<Orphan>& orphans, const Work& work) {
    for (Orphan& orphan : orphans) {
        const auto done = attempt([&]() -> Result<void> {
            work(orphan);
            return {};
        });
        if (!done) {
            log_warning("memleax was killed: process {} or a child of it may not be as it was "
                        "before: {}",
                        orphan.record->pid.load(), done.error().message());
        }
    }
}

bool restore(Orphan& orphan) {
    const int pid = orphan.record->pid.load();
    if (const auto done = restore_process(orphan.record); !done) {
        (void)attempt([&orphan] { return restore_jumps(*orphan.record); });
        log_warning("memleax was killed: {}", done.error().message());
        return false;
    }
    orphan.record->pid.store(0); // others may watch it
    log_warning("memleax was killed; process {} is as it was before", pid);
    return true;
}

} // namespace

bool restore_all(const std::vector<std::shared_ptr<RecoveryRecord>>& records) {
    // Nobody waits longer than need be for this, nor for memory.
    for (const auto& record : records) {
        (void)attempt([&record] { return restore_code(*record); });
    }
    std::vector<Orphan> orphans;
    std::set<Tid> watched;
    auto in_order = records;
    (void)attempt([&]() -> Result<void> {
        in_order = children_first(records);
        // One that is frozen is waited for as long as somebody likes. Asked first: an exception
        // within the partition would leave empty pointers.
        std::set<const RecoveryRecord*> frozen;
        for (const auto& record : in_order) {
            if (file_of_freezer(Tid(record->pid.load()))) {
                frozen.insert(record.get());
            }
        }
        std::stable_partition(in_order.begin(), in_order.end(), [&frozen](const auto& record) {
            return !frozen.contains(record.get());
        });
        return {};
    });
    for (const auto& record : in_order) {
        orphans.push_back({record, nullptr, {}});
        watched.insert(Tid(record->pid.load()));
    }
    for_every(orphans, [](Orphan& orphan) {
        orphan.before =
            orphan.record->copy_for(orphan.record->pid.load(), orphan.record->start_time);
    });
    for_every(orphans, [&watched](Orphan& orphan) {
        orphan.children = restore_code_in_children(*orphan.record, watched);
    });
    run_as_usual();
    for_every(orphans, [](Orphan& orphan) {
        // Its parent's restoring would wait for it, and take its call's result for the parent's.
        if (orphan.before != nullptr && restore_borrowed_child(*orphan.before)) {
            orphan.record->borrowed.tid.store(0);
            orphan.record->borrowed.tid_of_mask.store(0);
        }
    });
    std::size_t restored = 0;
    for_every(orphans, [&restored](Orphan& orphan) { restored += restore(orphan) ? 1 : 0; });
    for_every(orphans, [&watched](Orphan& orphan) {
        if (orphan.before != nullptr) {
            restore_children(*orphan.before, watched, orphan.children);
        }
    });
    return restored == records.size();
}

} // namespace memleax
