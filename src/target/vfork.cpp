// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that has called vfork (clone with CLONE_VFORK) sleeps in the kernel, where no ptrace
// request reaches it, until its child executes a program or ends. The child may have the thread's
// memory or (without CLONE_VM) its own; and as we hold newborn children, it may be us that it waits
// for.
#include <csignal>
#include <variant>
#include <vector>

#include <poll.h>

#include "memleax/target/target.hpp"

namespace memleax {

void Target::adopt_child(Tid tid) {
    add_thread(tid) = TracedThread{
        .state = TracedThread::State::stopped, .stop_signal = 0, .is_child_process = true};
}

bool Target::is_child_process(Tid tid) const {
    const auto it = threads_.find(tid);
    return it != threads_.end() && it->second.is_child_process;
}

Result<Tid> Target::borrow_child() {
    for (const auto& [target, event] : tracer_.deferred_) {
        const auto* birth = std::get_if<ChildStop>(&event);
        if (target == this && birth != nullptr && birth->shares_memory) {
            adopt_child(birth->tid); // once more when that event is told, which changes nothing
            return birth->tid;
        }
    }
    std::vector<Tid> children;
    for (const auto& [tid, thread] : threads_) {
        if (thread.is_child_process) {
            children.push_back(tid);
        }
    }
    for (const Tid child : children) {
        if (!stop_and_defer(child) || threads_[child].in_vfork || has_deferred_exec(child)) {
            continue;
        }
        const int signal = stop_signal(child);
        if (signal == 0 || (signal == SIGTRAP && is_breakpoint_trap(child))) {
            return child;
        }
    }
    return cannot_be_stopped();
}

void Target::enter_vfork_waits() {
    std::vector<Tid> parents;
    for (const auto& [tid, thread] : threads_) {
        if (thread.state == TracedThread::State::stopped && thread.in_vfork) {
            parents.push_back(tid);
        }
    }
    for (const Tid tid : parents) {
        interrupt(tid);
        resume(tid);
    }
}

void Target::let_children_go_on() {
    std::vector<StopEvent> others;
    while (const auto event = next_event(Wait::poll)) {
        const Tid tid = tid_of(*event);
        const bool stands = is_stopped(tid) && !std::holds_alternative<ExecStop>(*event);
        if (const auto* birth = std::get_if<ChildStop>(&*event)) {
            if (birth->shares_memory) {
                adopt_child(tid);
                resume(tid);
            } else {
                detach(tid);
            }
        } else if (stands && threads_[tid].in_vfork) {
            interrupt(tid);
            resume(tid);
        } else if (stands && is_child_process(tid)) {
            std::holds_alternative<GroupStop>(*event) ? listen(tid) : resume(tid, stop_signal(tid));
        } else {
            others.push_back(*event);
        }
    }
    for (const StopEvent& event : others) {
        defer(event);
    }
    poll(nullptr, 0, 1);
}

} // namespace memleax
