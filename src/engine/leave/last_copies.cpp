// SPDX-License-Identifier: GPL-3.0-or-later
// Detacher: children that are made while the last of ours goes. A thread that slept, and so was not
// stopped, may have woken up and forked: its copy has what was still there then.
#include <cstdint>
#include <optional>
#include <set>

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>

#include "detacher.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/base/thread_priority.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

/// Does a thread that waits in this call make a copy of its memory? One that shares it may wait for
/// its child there (vfork(2)).
bool copies_memory(Target& target, const KernelState& kernel) {
    const long call = kernel.system_call.value_or(-1);
    std::optional<std::uint64_t> flags = kernel.arguments[0];
    if (call == SYS_clone3) { // they are the first of struct clone_args
        flags = target.memory().try_read_object<std::uint64_t>(RemoteAddr(*flags));
    }
#ifdef SYS_fork
    if (call == SYS_fork) {
        return true;
    }
#endif
    return (call == SYS_clone || call == SYS_clone3) && (flags.value_or(0) & CLONE_VM) == 0;
}

} // namespace

OwnPages Detacher::own_pages() {
    if (may_be_referenced_) {
        return {};
    }
    if (pages_) {
        return *pages_;
    }
    known_pages_.look(target_.memory(), own_);
    return known_pages_;
}

// One that computes is stopped, to be sure.
bool Detacher::may_be_forking(Tid tid) {
    const auto thread = target_.threads().find(tid);
    if (thread == target_.threads().end() || thread->second.in_vfork) {
        return false;
    }
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    if (!kernel || kernel->has_ended() || kernel->state == 'S' || kernel->is_kernels_worker) {
        return false; // who makes a copy does not sleep like that
    }
    if (kernel->state == 'D') {
        return copies_memory(target_, *kernel);
    }
    if (kernel->state == 'R' && computing_.computes(target_.pid(), tid) &&
        stopped_to_see_.insert(tid).second) {
        target_.interrupt(tid);
    }
    return true;
}

// All that were stopped have been let go of: nobody waits for this.
void Detacher::clean_last_copies() {
    std::set<Tid> unseen;
    for (const auto& [tid, thread] : target_.threads()) {
        unseen.insert(tid);
    }
    for (const Patience patience(kMostMsForOthers); !patience.is_over();) {
        if (!collect_stopped()) {
            return;
        }
        detach_stopped();
        std::erase_if(unseen, [this](Tid tid) { return !may_be_forking(tid); });
        if (unseen.empty() && target_.expected_children().empty()) {
            return;
        }
        run_as_usual();
        poll(nullptr, 0, kPauseMs);
    }
    log_debug("{} threads may be about to make a child that has pages of ours", unseen.size());
}

} // namespace memleax
