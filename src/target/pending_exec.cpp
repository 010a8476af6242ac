// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/pending_exec.hpp"

#include <algorithm>
#include <vector>

#include <poll.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

bool is_exec_of(const StopEvent& event, Tid pid) {
    return std::holds_alternative<ExecStop>(event) && tid_of(event) == pid;
}

} // namespace

bool PendingExec::is_deferred(Tid tid) const {
    return target_.parts().tracer.queue().has_exec_of(tid);
}

bool PendingExec::has_happened() {
    if (const auto event = target_.parts().waits.wait_for(target_.pid(), WNOHANG)) {
        target_.parts().tracer.put_off({&target_, *event});
    }
    return is_deferred(target_.pid());
}

bool PendingExec::happens_instead_of_end() {
    std::vector<StopEvent> events;
    bool executes = false;
    const auto lives = [](const auto& entry) { return !entry.second.is_child_process; };
    constexpr std::int64_t kMostMs = 10'000; // a moment, but for dead disks
    for (const Patience patience(kMostMs);
         !executes && std::any_of(target_.threads().begin(), target_.threads().end(), lives) &&
         !patience.is_over();) {
        const auto event = target_.next_event(Target::Wait::poll);
        if (!event) {
            poll(nullptr, 0, 1);
            continue;
        }
        events.push_back(*event);
        executes = is_exec_of(*event, target_.pid());
    }
    for (const StopEvent& event : events) {
        if (!executes || tid_of(event) != target_.pid() || is_exec_of(event, target_.pid())) {
            target_.defer(event);
        }
    }
    return executes;
}

} // namespace memleax
