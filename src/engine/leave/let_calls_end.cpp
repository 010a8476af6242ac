// SPDX-License-Identifier: GPL-3.0-or-later
// Detacher: calls that were made by way of our code, and return to it.
#include <algorithm>
#include <utility>

#include <poll.h>

#include "detacher.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"

namespace memleax {

// Whoever is in the allocator by way of our code may wait there for somebody else, so that all run
// until the last has got out. Nobody gets in any more. One that has left by siglongjmp does not
// seem to get out: it is looked at more closely now and then.
void Detacher::let_calls_end() {
    std::set<Tid> inside = own_.inside();
    std::set<Tid> are_out;
    Patience patience(kMostMsWithoutProgress);
    std::size_t fewest = inside.size();
    int pauses = 0;
    int run_pauses = 1; ///< so long does one in a group-stop go on
    int next_stop = kPausesBetweenLooks;
    for (int next_look = kPausesBetweenLooks; !inside.empty() && !patience.is_over();) {
        if (++pauses == next_look) {
            next_look *= 2;
            for (const Tid tid : inside) {
                if (!target_.is_stopped(tid)) {
                    target_.interrupt(tid);
                }
            }
        }
        // Twice as long each time: on a loaded machine one that is asked to stop before it has got
        // a CPU gets nowhere.
        if (pauses >= next_stop) {
            stop_lock_holders();
            ask_listening_lock_holders();
            run_pauses = std::min(2 * run_pauses, kLongestPauseMs / kPauseMs);
            next_stop = pauses + run_pauses;
        }
        poll(nullptr, 0, kPauseMs);
        for (unsigned events = 0; events < kMostEventsAtOnce; ++events) {
            const auto event = target_.next_event(Target::Wait::poll);
            if (!event) {
                break;
            }
            std::set<Tid> any;
            collect(*event, &any);
            if (target_gone_) {
                return;
            }
            const Tid tid = tid_of(*event);
            if (const auto sp = target_.stack_pointer(tid);
                target_.is_stopped(tid) && sp && !is_in_call(tid, *sp)) {
                are_out.insert(tid);
            }
        }
        run_on(inside);
        if (pauses >= kPausesBetweenLooks) {
            run_lock_holders_on(inside);
        }
        inside = own_.inside();
        // The end of the first thread is not told as long as others live.
        std::erase_if(inside, [&](Tid tid) {
            return are_out.contains(tid) || !target_.threads().contains(tid) ||
                   is_past_its_end(tid);
        });
        if (inside.size() < fewest) {
            fewest = inside.size();
            patience.begin_anew();
        }
    }
    for (const Tid tid : inside) {
        log_debug("thread {} does not return from a call made in pages of ours", tid.value());
    }
    stop_lock_holders();
    to_get_out_.clear();
}

// One in a group-stop stays there, but for who has to get out, too.
void Detacher::run_on(const std::set<Tid>& inside) {
    std::vector<Tid> stopped;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped &&
            (!in_group_stop_.contains(tid) || inside.contains(tid))) {
            stopped.push_back(tid);
        }
    }
    for (const Tid tid : stopped) {
        target_.resume(tid, target_.stop_signal(tid));
    }
}

// The code of what calls the allocator is not next to it, most often, and stands still as job
// control wants it.
void Detacher::run_lock_holders_on(const std::set<Tid>& inside) {
    std::vector<Tid> holders;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped && in_group_stop_.contains(tid) &&
            !inside.contains(tid) && lock_holders_.may_be(tid)) {
            holders.push_back(tid);
        }
    }
    for (const Tid tid : holders) {
        run_on_for_others_.insert(tid);
        target_.resume(tid, target_.stop_signal(tid));
    }
}

void Detacher::stop_lock_holders() {
    for (const Tid tid : std::exchange(run_on_for_others_, {})) {
        const auto thread = target_.threads().find(tid);
        if (thread != target_.threads().end() &&
            thread->second.state == TracedThread::State::running) {
            target_.interrupt(tid);
        }
    }
}

// Those that were stopped while they were watched. They tell of it once more.
void Detacher::ask_listening_lock_holders() {
    std::vector<Tid> listening;
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::listening && lock_holders_.may_be(tid)) {
            listening.push_back(tid);
        }
    }
    for (const Tid tid : listening) {
        target_.interrupt(tid);
    }
}

} // namespace memleax
