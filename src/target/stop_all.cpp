// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/stop_all.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/pending_exec.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "target_parts.hpp"

namespace memleax {

Result<MonotonicNs> stop_all_and_defer(Target& target) {
    constexpr std::int64_t kMostMs = 5000;
    const auto any_is = [&target](TracedThread::State state) {
        return std::any_of(target.threads().begin(), target.threads().end(),
                           [state](const auto& entry) { return entry.second.state == state; });
    };
    std::set<Tid> running;
    const auto find_running = [&] {
        running.clear();
        for (const auto& [tid, thread] : target.threads()) {
            if (thread.state == TracedThread::State::running) {
                running.insert(tid);
            }
        }
    };
    auto since = target.borrower().await_harmless_stop_of_all();
    if (!since) {
        return since;
    }
    for (const Patience patience(kMostMs);;) {
        if (any_is(TracedThread::State::listening)) {
            return Error(fmt::format("process {} is stopped by a signal", target.pid().value()),
                         EAGAIN);
        }
        find_running();
        bool all_stopped = true;
        for (const Tid tid : running) {
            target.interrupt(tid);
        }
        // All of them, also behind one that cannot be stopped: a call that was interrupted goes on
        // when its thread's stop has been dealt with.
        std::optional<Error> problem;
        for (const Tid tid : running) {
            if (target.await_and_defer(tid)) {
                continue;
            }
            const auto kernel = try_read_kernel_state(target.pid(), tid);
            if (kernel && !kernel->has_ended() && target.threads().contains(tid)) {
                problem = Error(fmt::format("thread {} of process {} waits in the kernel, where "
                                            "it cannot be stopped",
                                            tid.value(), target.pid().value()),
                                EAGAIN);
            }
        }
        if (problem) {
            return *problem;
        }
        // A newborn stands still, and has not been told of.
        for (const Tid child : std::set<Tid>(target.parts().births.expected())) {
            if (const auto event = target.parts().waits.wait_for(child, WNOHANG)) {
                target.defer(*event);
            }
        }
        target.forget_dead_children();
        if (PendingExec(target).has_happened()) {
            return Error(fmt::format("process {} executes another program", target.pid().value()),
                         EAGAIN);
        }
        find_running();
        for (const Tid tid : running) { // the first thread may have ended before the others
            const auto kernel = try_read_kernel_state(target.pid(), tid);
            all_stopped = all_stopped && kernel && kernel->has_ended();
        }
        if (all_stopped && target.parts().births.expected().empty()) {
            break;
        }
        if (patience.is_over()) {
            return Error(fmt::format("process {} has threads that cannot be stopped now",
                                     target.pid().value()),
                         EAGAIN);
        }
        poll(nullptr, 0, 1);
    }
    if (!any_is(TracedThread::State::stopped)) {
        return Error(fmt::format("process {} has ended", target.pid().value()), ESRCH);
    }
    return since;
}

} // namespace memleax
