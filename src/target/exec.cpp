// SPDX-License-Identifier: GPL-3.0-or-later
// A process that executes another program while we have it in our hands.
#include <algorithm>
#include <csignal>
#include <vector>

#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "memleax/target/target.hpp"
#include "stop_wait.hpp"

namespace memleax {

namespace {

bool is_exec_of(const StopEvent& event, Tid pid) {
    return std::holds_alternative<ExecStop>(event) && tid_of(event) == pid;
}

} // namespace

bool Target::has_deferred_exec(Tid tid) const {
    return tracer_.queue().any_of([this, tid](const TargetStop& stop) {
        return stop.target == this && is_exec_of(stop.event, tid);
    });
}

bool Target::has_executed() {
    if (const auto event = waits_->wait_for(pid_, WNOHANG)) {
        tracer_.put_off({this, *event});
    }
    return has_deferred_exec(pid_);
}

bool Target::executes_instead_of_ending() {
    std::vector<StopEvent> events;
    bool executes = false;
    const auto lives = [](const auto& entry) { return !entry.second.is_child_process; };
    constexpr std::int64_t kMostMs = 10'000; // a moment, but for dead disks
    for (const Patience patience(kMostMs); !executes &&
                                           std::any_of(threads().begin(), threads().end(), lives) &&
                                           !patience.is_over();) {
        const auto event = next_event(Wait::poll);
        if (!event) {
            poll(nullptr, 0, 1);
            continue;
        }
        events.push_back(*event);
        executes = is_exec_of(*event, pid_);
    }
    for (const StopEvent& event : events) {
        if (!executes || tid_of(event) != pid_ || is_exec_of(event, pid_)) {
            defer(event);
        }
    }
    return executes;
}

} // namespace memleax
