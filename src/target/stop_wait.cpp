// SPDX-License-Identifier: GPL-3.0-or-later
#include "stop_wait.hpp"

#include <ctime>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/freezer.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

std::optional<StopEvent> StopWait::wait_for(Tid tid, int flags) {
    const auto stop = tracer_.wait_for(tid, flags);
    if (stop && stop->target != &target_) {
        tracer_.put_off(*stop);
        return std::nullopt;
    }
    return stop ? std::optional(stop->event) : std::nullopt;
}

std::optional<StopEvent> StopWait::wait_for_stop(Tid tid) {
    constexpr std::int64_t kMostMs = 5000;
    constexpr std::int64_t kMostMsOutOfReach = 20;
    const Patience patience(kMostMs);
    Patience out_of_reach(kMostMsOutOfReach);
    for (int looks = 0;; ++looks) {
        if (auto event = wait_for(tid, WNOHANG)) {
            return event;
        }
        if (looks > SpinPolicy::polls()) {
            const auto kernel = try_read_kernel_state(target_.pid(), tid);
            if (!kernel || (kernel->has_ended() && tid == target_.pid())) {
                return std::nullopt;
            }
            if (kernel->state != 'D' && !kernel->has_ended()) {
                out_of_reach.begin_anew();
            }
            if (out_of_reach.is_over() || patience.is_over()) {
                return std::nullopt;
            }
        }
        pause_between_looks(tid, looks);
    }
}

std::optional<int> StopWait::await_status(Tid tid) {
    Patience patience(kMostMsUntilItRuns);
    bool has_warned = false;
    int status = 0;
    for (int looks = 0;; ++looks) {
        const pid_t got = waitpid(tid.value(), &status, __WALL | __WNOTHREAD | WNOHANG);
        if (got > 0) {
            break;
        }
        if (got < 0) {
            return std::nullopt;
        }
        if (patience.is_over()) {
            const auto kernel = try_read_kernel_state(target_.pid(), tid);
            if (kernel && kernel->state != 'R') { // else it waits for a CPU
                target_.interrupt(tid);
            }
            const auto freezer = has_warned ? std::nullopt : file_of_freezer(target_.pid());
            if (freezer) { // which, in version 1, keeps a stop from us, too
                log_warning("process {} was frozen ({}) while it executed something for memleax: "
                            "it can be left when that is thawed",
                            target_.pid().value(), *freezer);
                has_warned = true;
            }
            patience.begin_anew();
        }
        pause_between_looks(tid, looks);
    }
    if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_EXEC) { // the thread is no more
        if (const auto event = target_.parts().decoder.decode(tid, status)) {
            target_.defer(*event);
        }
        return std::nullopt;
    }
    return status;
}

void StopWait::pause_between_looks(Tid tid, int looks) {
    const int pauses = looks - SpinPolicy::polls(); // before this one
    if (pauses < 0) {
        return;
    }
    constexpr int kPausesBetweenReapings = 8;
    if ((pauses + 1) % kPausesBetweenReapings == 0) {
        reap_dead(target_.parts().group_of(tid));
    }
    constexpr timespec kPause{0, 100'000};
    nanosleep(&kPause, nullptr);
}

void StopWait::reap_dead(Tid process) {
    // One by one: a wait for any would find stops as well, which a tracer is always told of
    // (kernel/exit.c, wait_task_stopped).
    for (const Tid tid : list_threads(process)) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(tid.value()), &info,
                   WEXITED | WNOWAIT | WNOHANG | __WALL | __WNOTHREAD) == 0 &&
            info.si_pid != 0 && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) {
            if (const auto end = tracer_.wait_for(tid, WNOHANG)) {
                tracer_.queue().push(*end);
            }
        }
    }
}

} // namespace memleax
