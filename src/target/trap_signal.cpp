// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/trap_signal.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "target_parts.hpp"
#include "trap_frame.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kOneShot = static_cast<std::uint32_t>(SA_RESETHAND);

TrapAction::Action as_default(TrapAction::Action action) {
    action.handler = TrapAction::kDefault;
    return action;
}

} // namespace

Result<void> TrapSignal::install(Tid worker) {
    forget();
    for (const auto& [tid, thread] : target_.threads()) {
        const auto info = try_read_process_info(tid);
        if (info && (info->blocked_signals & kTrapBit) != 0) {
            blocking_.emplace(tid, Blocking{info->blocked_signals, false});
            target_.record().set_blocking(tid, info->blocked_signals, false);
        }
    }
    auto done = handler_.map(worker);
    if (!done) {
        return done;
    }
    if (!action_.is_shared_by(worker)) {
        log_debug("SIGTRAP's handler: only a child that shares the memory can be stopped");
        return {};
    }
    done = action_.install(worker);
    if (!action_.installed()) {
        return done;
    }
    next_look_ = monotonic_now().value() + kNsBetweenLooks;
    unblock_threads();
    return done;
}

void TrapSignal::adopt() {
    const RecoveryRecord& record = target_.record();
    action_.adopt();
    for (const auto& entry : record.blocking) {
        if (entry.tid == 0) {
            break;
        }
        // The kernel may have unblocked it, and nobody lived to note that; or it is in our handler,
        // where everything is blocked.
        const Tid tid(entry.tid);
        const auto info = try_read_process_info(tid);
        const bool untouched = info && info->blocked_signals == entry.mask;
        blocking_.emplace(tid, Blocking{entry.mask, !untouched});
    }
}

// The others are unblocked by the kernel when they run into a breakpoint. Each hit that is spared
// that is one fewer moment without a handler.
void TrapSignal::unblock_threads() {
    std::vector<Tid> all;
    for (const auto& [tid, entry] : blocking_) {
        all.push_back(tid);
    }
    for (const Tid tid : all) {
        const auto it = blocking_.find(tid);
        const bool stopped = target_.borrower().minds_no_stop(tid) && target_.stop_and_defer(tid) &&
                             !StoppedThread(tid).has_temporary_mask();
        std::uint64_t mask = it->second.mask;
        bool is_known = false;
        if (stopped) {
            if (const auto read = StoppedThread(tid).signal_mask()) {
                mask = *read;
                is_known = true;
            }
        }
        if ((is_known && (mask & kTrapBit) == 0) ||
            is_in_trap_handler(target_, tid, mask, action_.wanted())) {
            // It has not blocked it for good, and is not to find it blocked when we have left.
            on_thread_gone(tid);
        } else if (is_known && mask == it->second.mask) {
            // Else it has changed its mask since: one in pthread_create or fork has by now.
            set_unblocked(tid, &it->second, true);
            StoppedThread(tid).set_signal_mask(it->second.mask & ~kTrapBit);
        }
    }
}

bool TrapSignal::is_caught(Tid tid) {
    const auto info = try_read_process_info(tid);
    return !info || (info->caught_signals & kTrapBit) != 0;
}

void TrapSignal::set_unblocked(Tid tid, Blocking* entry, bool unblocked) {
    entry->unblocked = unblocked;
    target_.record().set_blocking(tid, entry->mask, unblocked);
}

void TrapSignal::on_birth(Tid parent, Tid child) {
    const auto stands_in_line = [&] {
        return target_.parts().tracer.queue().any_of([&](const TargetStop& stop) {
            return stop.target == &target_ && tid_of(stop.event) == child;
        });
    };
    if (!target_.threads().contains(child) && !target_.expected_children().contains(child) &&
        !stands_in_line()) {
        return; // it has been cleaned, and let go of or taken over
    }
    newborns_.insert(child);
    const auto it = blocking_.find(parent);
    if (it != blocking_.end()) {
        const Blocking inherited = it->second;
        const auto added = blocking_.emplace(child, inherited).first;
        set_unblocked(child, &added->second, inherited.unblocked);
    }
}

// A child that has reported itself before its parent did is in no list yet: neither among the
// newborns nor, if its parent blocks SIGTRAP, among those that do. Whose it is, is asked only if
// some thread's mask could be what it has: any other thread may have the same by itself.
void TrapSignal::restore_mask_in_copy(Tid child) {
    const auto mask = StoppedThread(child).signal_mask();
    auto it = blocking_.find(child);
    if (it == blocking_.end() && !newborns_.contains(child) &&
        std::any_of(blocking_.begin(), blocking_.end(), [&mask](const auto& thread) {
            return is_mask_without_trap(thread.second, mask);
        })) {
        const auto parent = target_.await_parent_of(child);
        it = parent ? blocking_.find(*parent) : blocking_.end();
    }
    if (it != blocking_.end() && is_mask_without_trap(it->second, mask)) {
        StoppedThread(child).set_signal_mask(it->second.mask);
    }
}

void TrapSignal::on_thread_gone(Tid tid) {
    suspects_.erase(tid);
    newborns_.erase(tid);
    action_.on_thread_gone(tid);
    if (blocking_.erase(tid) != 0) {
        target_.record().forget_blocking(tid);
    }
}

void TrapSignal::look_after(Tid tid) {
    bool gone = false;
    const bool is_newborn = newborns_.erase(tid) != 0;
    const std::int64_t now = monotonic_now().value();
    const auto it = blocking_.find(tid);
    if (it != blocking_.end() && !it->second.unblocked) {
        set_unblocked(tid, &it->second, true);
        gone = true;
    } else if (hits_until_look_ <= 0 || is_newborn || now >= next_check_ ||
               suspects_.contains(tid)) {
        next_check_ = now + kNsBetweenChecks;
        gone = !is_caught(tid);
        if (gone && suspicion_ > 0) {
            suspects_.insert(tid); // it was there at the last hit
        } else if (gone) {
            suspicion_ = kHitsOfSuspicion;
        }
        hits_until_look_ = suspicion_ > 0 ? 1 : kHitsBetweenLooks;
        suspicion_ -= suspicion_ > 0 ? 1 : 0;
        if (action_.installed() && !gone && now > next_look_) {
            next_look_ = now + kNsBetweenLooks;
            action_.look(tid);
        }
    }
    if (gone && action_.installed()) {
        action_.reinstall(tid);
    }
}

TrapSignal::Delivery TrapSignal::before_delivery(Tid tid) {
    if (!action_.installed()) {
        return {SIGTRAP, action_.wanted().handler == TrapAction::kDefault};
    }
    const bool forced =
        StoppedThread(tid).is_breakpoint_trap(); // the kernel unblocks what it forces
    const auto it = blocking_.find(tid);
    const bool blocks =
        it != blocking_.end() && is_mask_without_trap(it->second, StoppedThread(tid).signal_mask());
    if (blocks && !forced) {
        // With the mask back the kernel, about to deliver it, queues it anew (ptrace_signal).
        set_unblocked(tid, &it->second, false);
        StoppedThread(tid).set_signal_mask(it->second.mask);
        const bool is_default = action_.wanted().handler == TrapAction::kDefault;
        if (is_default && !std::exchange(has_warned_of_pending_, true)) {
            log_warning("thread {} blocks SIGTRAP, and one is pending: the breakpoints are taken "
                        "out, as they would take its place; nothing is counted from now on",
                        tid.value());
        }
        return {SIGTRAP, is_default};
    }
    // By /proc if it can be told: a remote call here would hold the signal up, and if we died then
    // the guardian would have to send it anew.
    const auto info = try_read_process_info(tid);
    const bool caught = !info || (info->caught_signals & kTrapBit) != 0;
    TrapAction::Action action = action_.wanted();
    if (info && (info->ignored_signals & kTrapBit) != 0) {
        action = {TrapAction::kIgnore, 0, 0, 0};
        if (action_.is_shared_by(tid)) {
            action_.on_unseen_change(tid, action);
        }
    } else if (caught && !action.has_handler()) {
        action = action_.look(tid);
    }
    if (action.handler == TrapAction::kIgnore && !forced) {
        return {0, false};
    }
    if (!action.has_handler() || blocks) {
        action_.put_in_force(tid, as_default(action));
        return {SIGTRAP, true};
    }
    if ((action.flags & kOneShot) != 0) {
        // The kernel calls this one itself, and puts the default in its place. The next hit
        // finds ours gone.
        action_.put_in_force(tid, action);
        if (action_.is_shared_by(tid)) {
            action_.set_wanted(as_default(action));
            hits_until_look_ = 1;
        }
    } else if (!caught) {
        action_.reinstall(tid); // a hit in a thread that blocks SIGTRAP has just taken it away
    }
    return {SIGTRAP, false};
}

bool TrapSignal::has_changed_mask(Tid tid) const {
    const auto it = blocking_.find(tid);
    return it != blocking_.end() && it->second.unblocked;
}

// With any other difference than the bit that was cleared the thread has set a mask of its own
// since, and whether SIGTRAP was in it cannot be known.
bool TrapSignal::is_mask_without_trap(const Blocking& entry, std::optional<std::uint64_t> mask) {
    return entry.unblocked && mask == (entry.mask & ~kTrapBit);
}

void TrapSignal::restore_masks() {
    for (auto& [tid, entry] : blocking_) {
        if (entry.unblocked && target_.is_stopped(tid) &&
            !StoppedThread(tid).has_temporary_mask() &&
            is_mask_without_trap(entry, StoppedThread(tid).signal_mask())) {
            StoppedThread(tid).set_signal_mask(entry.mask);
            set_unblocked(tid, &entry, false);
        }
    }
}

Result<void> TrapSignal::restore(Tid worker) {
    restore_masks();
    return action_.restore(worker);
}

void TrapSignal::restore_after_exec(Tid tid, Tid former) {
    const auto it = blocking_.find(former);
    if (it != blocking_.end() && it->second.unblocked) {
        StoppedThread(tid).set_signal_mask(it->second.mask);
    }
    action_.restore_after_exec(tid, former);
}

void TrapSignal::forget() {
    blocking_.clear();
    suspects_.clear();
    action_.forget();
}

} // namespace memleax
