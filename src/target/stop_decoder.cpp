// SPDX-License-Identifier: GPL-3.0-or-later
#include "stop_decoder.hpp"

#include <csignal>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/proc/memory_sharers.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

Tid event_message(Tid tid) {
    unsigned long message = 0;
    ptrace(PTRACE_GETEVENTMSG, tid.value(), nullptr, &message);
    return Tid(static_cast<int>(message));
}

} // namespace

StopEvent StopDecoder::child_stop(Tid child) const {
    return ChildStop{child, shares_memory(target_.pid(), child)};
}

std::optional<StopEvent> StopDecoder::decode(Tid tid, int status) {
    TracedThread* thread = parts_.threads.find(tid);
    if (!WIFSTOPPED(status)) {
        parts_.births.forget(tid);
        target_.parts().remove_thread(tid);
        if (tid == target_.pid()) {
            tracer_.claim_last_orphans(target_, true);
        }
        return thread != nullptr || tid == target_.pid()
                   ? std::optional<StopEvent>(ThreadGone{tid, status})
                   : std::nullopt;
    }
    return decode_stop(tid, thread != nullptr ? *thread : target_.parts().add_thread(tid), status);
}

StopEvent StopDecoder::decode_stop(Tid tid, TracedThread& thread, int status) {
    const int signal = WSTOPSIG(status);
    const int event = status >> 16;
    // One that has been looked at and not taken (Tracer::wait_for) is found again.
    const bool is_known = thread.state == TracedThread::State::stopped;
    parts_.core_dump.on_stop(tid);
    thread.state = TracedThread::State::stopped;
    thread.stop_signal = 0;
    thread.in_system_call = event != 0 && event != PTRACE_EVENT_STOP;
    thread.in_vfork = event == PTRACE_EVENT_VFORK;

    switch (event) {
    case 0:
        thread.stop_signal = signal;
        if (!is_known) {
            parts_.signals.on_signal_stop(tid, signal);
        }
        if (signal == SIGTRAP) {
            parts_.calls.on_trap(tid);
            return TrapStop{tid};
        }
        parts_.calls.end_begun_again(tid, signal);
        parts_.calls.begin_again(tid, signal);
        return SignalStop{tid, signal};
    case PTRACE_EVENT_STOP:
        if (signal == SIGTRAP) {
            parts_.calls.begin_again(tid, 0);
            return QuietStop{tid};
        }
        return GroupStop{tid, signal};
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK: {
        const Tid child = event_message(tid);
        if (!parts_.births.take_early(child) && !tracer_.claim_orphan(child, target_)) {
            parts_.births.expect(child);
        }
        return BirthStop{tid, child, event == PTRACE_EVENT_FORK};
    }
    case PTRACE_EVENT_EXEC: {
        const Tid former = event_message(tid);
        if (former.value() > 0 && former != tid) { // 0: it has been killed
            target_.parts().remove_thread(former);
        }
        if (tid == target_.pid()) {
            on_exec(tid);
        }
        return ExecStop{tid, former};
    }
    default:
        return QuietStop{tid};
    }
}

// The other threads went without a word, and their ids may be used anew. What this one was stopped
// for before is over: told now, it would let the new program run on.
void StopDecoder::on_exec(Tid tid) {
    tracer_.queue().forget(tid);
    parts_.signals.on_exec(tid);
    target_.parts().interrupted.forget(tid);
    const auto is_gone = [tid](Tid other, const TracedThread& thread) {
        return other != tid && !thread.is_child_process;
    };
    for (const Tid other : parts_.threads.tids_if(is_gone)) {
        target_.parts().remove_thread(other);
    }
    tracer_.claim_last_orphans(target_, false);
}

} // namespace memleax
