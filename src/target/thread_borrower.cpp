// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/thread_borrower.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <sys/wait.h>

#include "borrow_candidate.hpp"
#include "harmless_moment.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/pending_exec.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "stop_cost.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

HarmlessMoment::Seen seen_at(StopCost cost) {
    using Seen = HarmlessMoment::Seen;
    return cost == StopCost::cut_short         ? Seen::asleep_in_transfer
           : cost == StopCost::runs            ? Seen::running
           : cost == StopCost::uninterruptible ? Seen::otherwise
                                               : Seen::asleep_elsewhere;
}

/// By what was seen before, too.
StopCost cost_at(HarmlessMoment* moment, Target& target, Tid tid) {
    const StopCost cost = stop_cost(target.pid(), tid, target.memory());
    return moment->is_in_transfer(tid, seen_at(cost)) ? StopCost::cut_short : cost;
}

} // namespace

bool ThreadBorrower::is_in_transfer(Tid tid) const {
    return !target_.is_stopped(tid) &&
           stop_cost(target_.pid(), tid, target_.memory()) == StopCost::cut_short;
}

// One that runs may be awake for a moment in a transfer. It is asked about threads that block
// SIGTRAP: those that stay so take our handler away at each of their hits, which is worse.
bool ThreadBorrower::minds_no_stop(Tid tid) const {
    return target_.is_stopped(tid) ||
           stop_cost(target_.pid(), tid, target_.memory()) <= StopCost::runs;
}

std::vector<BorrowCandidate> ThreadBorrower::candidates(HarmlessMoment* moment) const {
    const bool filters_matter = !may_suspend_seccomp();
    const auto is_filtered = [filters_matter](Tid tid) {
        const auto info = filters_matter ? try_read_process_info(tid) : std::nullopt;
        return info && info->seccomp_mode != 0;
    };
    std::vector<BorrowCandidate> candidates;
    for (const auto& [tid, thread] : target_.threads()) {
        const bool stopped = thread.state == TracedThread::State::stopped;
        // A child process shares the memory, and not what signals do.
        if (thread.is_child_process || (stopped && thread.in_vfork)) {
            continue;
        }
        const StopCost cost = stopped ? StopCost::nothing : cost_at(moment, target_, tid);
        if (cost != StopCost::gone) {
            candidates.push_back({is_filtered(tid), stopped, cost, tid});
        }
    }
    std::sort(candidates.begin(), candidates.end());
    return candidates;
}

Result<Tid> ThreadBorrower::borrow_thread(OnSignal on_signal) {
    HarmlessMoment moment(target_, on_signal);
    for (;;) {
        auto candidates = this->candidates(&moment);
        const auto is_transfer = [](const BorrowCandidate& each) {
            return each.cost == StopCost::cut_short;
        };
        const auto transfer = std::find_if(candidates.begin(), candidates.end(), is_transfer);
        const bool must_wait = transfer != candidates.end();
        const bool any_before = transfer != candidates.begin();
        std::erase_if(candidates, is_transfer);
        if (!must_wait || any_before) {
            auto borrowed = try_to_borrow(candidates);
            if (borrowed || !must_wait) {
                return borrowed;
            }
        }
        if (!moment.wait_on()) {
            return moment.why_not();
        }
        defer_what_has_come(); // who has stopped by itself is as good
    }
}

bool ThreadBorrower::has_thread_to_borrow() const {
    return std::any_of(target_.threads().begin(), target_.threads().end(),
                       [this](const auto& entry) { return !is_in_transfer(entry.first); });
}

std::set<Tid> ThreadBorrower::wait_out_transfers(const std::set<Tid>& threads) {
    HarmlessMoment moment(target_, OnSignal::wait_on);
    for (;;) {
        std::set<Tid> transferring;
        std::copy_if(threads.begin(), threads.end(),
                     std::inserter(transferring, transferring.end()), [&](Tid tid) {
                         return !target_.is_stopped(tid) &&
                                cost_at(&moment, target_, tid) == StopCost::cut_short;
                     });
        if (transferring.empty() || !moment.wait_on()) {
            return transferring;
        }
        defer_what_has_come();
    }
}

// Whoever stops by itself may as well stand until all do: under int3 those that allocate are known
// to be in no transfer by nothing else. But not as long as one sleeps in a transfer, which may
// last, and not for longer than they then run on in peace; twice as long each time, as on a busy
// machine each needs a CPU to be seen in.
Result<MonotonicNs> ThreadBorrower::await_harmless_stop_of_all() {
    constexpr std::int64_t kFirstStandingNs = 25'000'000;
    constexpr std::int64_t kMostStandingNs = 100'000'000; // where nobody lets them go on
    const bool may_go_on = target_.parts().tracer.serves_meanwhile();
    HarmlessMoment moment(target_, OnSignal::give_up);
    std::int64_t most_standing = may_go_on ? kFirstStandingNs : kMostStandingNs;
    std::int64_t standing = 0; // since when; 0: nobody is to
    std::int64_t until = 0;    // all run on
    for (;;) {
        std::optional<Tid> transferring;
        bool any_asleep = false;
        for (const auto& [tid, thread] : target_.threads()) {
            const StopCost cost = thread.state == TracedThread::State::running
                                      ? stop_cost(target_.pid(), tid, target_.memory())
                                      : StopCost::gone;
            if (cost != StopCost::gone && moment.is_in_transfer(tid, seen_at(cost))) {
                transferring = tid;
                any_asleep = any_asleep || cost == StopCost::cut_short;
            }
        }
        const std::int64_t now = monotonic_now().value();
        if (!transferring) {
            return MonotonicNs(standing != 0 ? standing : now);
        }
        const Error problem(fmt::format("process {} cannot be stopped without harm: thread {} is "
                                        "in a transfer, perhaps, which would be cut short",
                                        target_.pid().value(), transferring->value()),
                            may_go_on ? EBUSY : EAGAIN);
        const bool is_too_long = standing != 0 && now - standing > most_standing;
        if (is_too_long && !may_go_on) {
            return problem;
        }
        if (is_too_long) {
            until = 2 * now - standing;
            most_standing *= 2;
        }
        const bool go_on = may_go_on && (any_asleep || now < until);
        standing = go_on ? 0 : standing != 0 ? standing : now;
        if (!moment.wait_on(go_on ? HarmlessMoment::OwnStops::served
                                  : HarmlessMoment::OwnStops::left)) {
            return problem;
        }
        if (!go_on) {
            defer_what_has_come();
        }
    }
}

// As stop_and_defer() does. One by one: what is put aside here is not taken, and a wait for any
// would find it again.
void ThreadBorrower::defer_what_has_come() {
    const auto runs = [](Tid /*tid*/, const TracedThread& thread) {
        return thread.state == TracedThread::State::running;
    };
    for (const Tid tid : target_.parts().threads.tids_if(runs)) {
        if (const auto event = target_.parts().waits.wait_for(tid, WNOHANG)) {
            target_.defer(*event);
        }
    }
}

Result<Tid> ThreadBorrower::try_to_borrow(const std::vector<BorrowCandidate>& candidates) {
    // One that is about to get a signal comes last. As long as nothing of ours is in the target, it
    // can simply get it. Then it cannot (its handler's frame might lead to our pages), and would
    // have to be stepped, which our handler for SIGTRAP makes harmless should we die. In sigsuspend
    // and its like it has a temporary mask, which no ptrace request can put back; with the usual
    // one in place the kernel would find the signal blocked and queue it anew, behind its
    // followers.
    const bool can_get_it = target_.record().handler_in_force.load() == 0 &&
                            target_.record().breakpoint_count.load() == 0;
    std::optional<Tid> about_to_get_a_signal;
    for (const BorrowCandidate& candidate : candidates) {
        const Tid tid = candidate.tid;
        const bool is_last = candidate.is_filtered || candidate.cost == StopCost::uninterruptible;
        if (is_last && about_to_get_a_signal) {
            break;
        }
        if (!target_.stop_and_defer(tid) || target_.parts().threads[tid].in_vfork ||
            StoppedThread(tid).executes_foreign_code()) {
            continue; // it has just ended, or begun to wait for a child; or can make no call for us
        }
        const int signal = target_.stop_signal(tid);
        if (signal == 0 || (signal == SIGTRAP && StoppedThread(tid).is_breakpoint_trap())) {
            return tid;
        }
        if (!about_to_get_a_signal && (can_get_it || !StoppedThread(tid).has_temporary_mask())) {
            about_to_get_a_signal = tid;
        }
    }
    if (about_to_get_a_signal &&
        (!can_get_it || target_.signals().deliver_first(*about_to_get_a_signal))) {
        return *about_to_get_a_signal;
    }
    return cannot_be_stopped();
}

Result<Tid> ThreadBorrower::borrow_child() {
    for (const auto& [target, event] : target_.parts().tracer.queue()) {
        const auto* birth = std::get_if<ChildStop>(&event);
        if (target == &target_ && birth != nullptr && birth->shares_memory) {
            target_.adopt_child(
                birth->tid); // once more when that event is told, which changes nothing
            return birth->tid;
        }
    }
    const auto is_child = [](Tid /*tid*/, const TracedThread& thread) {
        return thread.is_child_process;
    };
    for (const Tid child : target_.parts().threads.tids_if(is_child)) {
        if (!target_.stop_and_defer(child) || target_.parts().threads[child].in_vfork ||
            PendingExec(target_).is_deferred(child)) {
            continue;
        }
        const int signal = target_.stop_signal(child);
        if (signal == 0 || (signal == SIGTRAP && StoppedThread(child).is_breakpoint_trap())) {
            return child;
        }
    }
    return cannot_be_stopped();
}

Error ThreadBorrower::cannot_be_stopped() const {
    const bool any_lives =
        std::any_of(target_.threads().begin(), target_.threads().end(), [](const auto& entry) {
            const auto info = try_read_process_info(entry.first);
            return !entry.second.is_child_process && info && !info->has_ended();
        });
    if (!any_lives) {
        return Error(fmt::format("process {} has ended", target_.pid().value()), ESRCH);
    }
    return Error(fmt::format("process {} cannot be stopped now: all its threads wait in the "
                             "kernel, for a child by vfork or a device, or execute code of another "
                             "instruction set",
                             target_.pid().value()),
                 EAGAIN);
}

} // namespace memleax
