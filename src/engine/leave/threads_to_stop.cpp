// SPDX-License-Identifier: GPL-3.0-or-later
// Detacher: who has to stop, and who need not stay so.
#include <cstdint>
#include <set>
#include <vector>

#include <poll.h>

#include "detacher.hpp"
#include "held_hits.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/thread_signals.hpp"

namespace memleax {

namespace {

/// For a thread that runs to be found asleep, or to compute. On a loaded machine it takes a while
/// until it gets a CPU.
constexpr std::int64_t kMostLookingNs = 3 * kNsPerSecond;

} // namespace

Detacher::Verdict Detacher::judge(Tid tid) {
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    if (kernel && kernel->has_ended()) {
        return Verdict::leave_alone; // the first thread, whose end is not told before the others'
    }
    if (are_out_.contains(tid) && is_done_with(tid)) {
        return Verdict::leave_alone;
    }
    if (kernel && (kernel->state == 'S' || kernel->state == 'D') && kernel->system_call &&
        !own_.contains(kernel->pc) && !trap_signal_.has_changed_mask(tid)) {
        if (will_be_back(tid, kernel->sp)) {
            return Verdict::sleeps_inside; // in a call of the allocator's, which is short
        }
        are_out_.insert(tid);
        return target_.signals().awaits_sent(tid) ? Verdict::awaits_signal : Verdict::leave_alone;
    }
    // Asleep, and in no call: it has fallen asleep since /proc said "running".
    const bool runs =
        kernel && (kernel->state == 'R' || (kernel->state == 'S' && kernel->pc.value() == 0));
    return runs && !computing_.computes_in_no_transfer(target_.pid(), tid, descriptors_)
               ? Verdict::look_again
               : Verdict::stop;
}

// One that runs may be in the kernel, in the midst of a transfer that a stop would cut short. It
// will be seen asleep soon, as long as it has to wait for its peer now and then; and whoever has
// been is not, nor will be, in what is ours, as the code is whole again. Whoever stops by itself
// meanwhile, or stood at a breakpoint when the code went back, is not kept for so long.
std::set<Tid> Detacher::threads_to_stop() {
    std::set<Tid> result;
    if (own_.empty()) {
        return result;
    }
    for (const auto& [tid, thread] : target_.threads()) {
        // Already stopped ones have their event in the queue.
        if (thread.state != TracedThread::State::stopped) {
            result.insert(tid);
        }
    }
    const std::int64_t begun = monotonic_now().value();
    for (;;) {
        bool any = false;
        const bool is_last_look = monotonic_now().value() - begun > kMostLookingNs;
        std::erase_if(result, [&](Tid tid) {
            const Verdict verdict = judge(tid);
            const bool sleeps_inside = verdict == Verdict::sleeps_inside;
            const bool sleeps = sleeps_inside || verdict == Verdict::awaits_signal;
            any = any || verdict == Verdict::look_again || sleeps;
            any_missed_ = any_missed_ || (sleeps_inside && is_last_look);
            return verdict == Verdict::leave_alone || (sleeps && is_last_look);
        });
        if (!any || is_last_look || target_gone_) {
            return result;
        }
        poll(nullptr, 0, kPauseMs);
        if (monotonic_now().value() - begun > kMostStandingNs) {
            look_whether_out();
            for (unsigned events = 0; events < kMostEventsAtOnce && !target_gone_; ++events) {
                const auto event = target_.next_event(Target::Wait::poll);
                if (!event) {
                    break;
                }
                collect(*event, &result);
            }
            let_go_on();
        }
    }
}

bool Detacher::is_done_with(Tid tid) const {
    return !trap_signal_.has_changed_mask(tid) && !target_.signals().awaits_sent(tid);
}

// One in a group-stop stays there, and one that is about to get a signal gets it with its detach.
void Detacher::let_go_on() {
    std::vector<Tid> done;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped && thread.stop_signal == 0 &&
            are_out_.contains(tid) && !in_group_stop_.contains(tid) && is_done_with(tid)) {
            done.push_back(tid);
        }
    }
    for (const Tid tid : done) {
        target_.resume(tid);
    }
}

} // namespace memleax
