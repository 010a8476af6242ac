// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/vfork.hpp"

#include <csignal>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/syscall.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

bool may_wait_for_child(const KernelState& kernel) {
    const long call = kernel.system_call.value_or(-1);
#ifdef SYS_vfork
    if (call == SYS_vfork) {
        return true;
    }
#endif
    return call == SYS_clone || call == SYS_clone3;
}

void enter_vfork_waits(Target& target) {
    const auto is_parent = [](Tid /*tid*/, const TracedThread& thread) {
        return thread.state == TracedThread::State::stopped && thread.in_vfork;
    };
    for (const Tid tid : target.parts().threads.tids_if(is_parent)) {
        target.interrupt(tid);
        target.resume(tid);
    }
}

void let_children_go_on(Target& target) {
    std::vector<StopEvent> others;
    while (const auto event = target.next_event(Target::Wait::poll)) {
        const Tid tid = tid_of(*event);
        const bool stands = target.is_stopped(tid) && !std::holds_alternative<ExecStop>(*event);
        if (const auto* birth = std::get_if<ChildStop>(&*event)) {
            if (birth->shares_memory) {
                target.adopt_child(tid);
                target.resume(tid);
            } else {
                target.detach(tid);
            }
        } else if (stands && target.parts().threads[tid].in_vfork) {
            target.interrupt(tid);
            target.resume(tid);
        } else if (stands && target.parts().threads.is_child_process(tid)) {
            std::holds_alternative<GroupStop>(*event) ? target.listen(tid)
                                                      : target.resume(tid, target.stop_signal(tid));
        } else {
            others.push_back(*event);
        }
    }
    for (const StopEvent& event : others) {
        target.defer(event);
    }
    poll(nullptr, 0, 1);
}

} // namespace memleax
