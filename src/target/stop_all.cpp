// SPDX-License-Identifier: GPL-3.0-or-later
// All threads stand still at one moment, while the process is being watched.
#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "stop_wait.hpp"

namespace memleax {

Result<void> Target::stop_all_and_defer() {
    constexpr std::int64_t kMostMs = 5000;
    const auto any_is = [this](TracedThread::State state) {
        return std::any_of(threads().begin(), threads().end(),
                           [state](const auto& entry) { return entry.second.state == state; });
    };
    std::set<Tid> running;
    const auto find_running = [&] {
        running.clear();
        for (const auto& [tid, thread] : threads()) {
            if (thread.state == TracedThread::State::running) {
                running.insert(tid);
            }
        }
    };
    find_running();
    if (const auto transfers = borrower_->wait_out_transfers(running); !transfers.empty()) {
        return Error(fmt::format("process {} cannot be stopped without harm: thread {} is in a "
                                 "transfer, perhaps, which would be cut short",
                                 pid_.value(), transfers.begin()->value()),
                     EBUSY);
    }
    for (const Patience patience(kMostMs);;) {
        if (any_is(TracedThread::State::listening)) {
            return Error(fmt::format("process {} is stopped by a signal", pid_.value()), EAGAIN);
        }
        find_running();
        bool all_stopped = true;
        for (const Tid tid : running) {
            if (stop_and_defer(tid)) {
                continue;
            }
            const auto kernel = try_read_kernel_state(pid_, tid);
            if (kernel && !kernel->has_ended() && threads().contains(tid)) {
                return Error(fmt::format("thread {} of process {} waits in the kernel, where it "
                                         "cannot be stopped",
                                         tid.value(), pid_.value()),
                             EAGAIN);
            }
        }
        // A newborn stands still, and has not been told of.
        for (const Tid child : std::set<Tid>(births_.expected())) {
            if (const auto event = waits_->wait_for(child, WNOHANG)) {
                defer(*event);
            }
        }
        forget_dead_children();
        if (has_executed()) {
            return Error(fmt::format("process {} executes another program", pid_.value()), EAGAIN);
        }
        find_running();
        for (const Tid tid : running) { // the first thread may have ended before the others
            const auto kernel = try_read_kernel_state(pid_, tid);
            all_stopped = all_stopped && kernel && kernel->has_ended();
        }
        if (all_stopped && births_.expected().empty()) {
            break;
        }
        if (patience.is_over()) {
            return Error(
                fmt::format("process {} has threads that cannot be stopped now", pid_.value()),
                EAGAIN);
        }
        poll(nullptr, 0, 1);
    }
    if (!any_is(TracedThread::State::stopped)) {
        return Error(fmt::format("process {} has ended", pid_.value()), ESRCH);
    }
    return {};
}

} // namespace memleax
