// SPDX-License-Identifier: GPL-3.0-or-later
#include "threads_at_rest.hpp"

#include "memleax/proc/process_info.hpp"

namespace memleax {

void ThreadsAtRest::begin() {
    begun_ = true;
    unseen_.clear();
    compute_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        unseen_.add(tid);
    }
}

void ThreadsAtRest::look() {
    unseen_.look([this](Tid tid) {
        const bool is_done = rests(tid);
        note_if_computing(tid, !is_done);
        return is_done;
    });
}

void ThreadsAtRest::note_if_computing(Tid tid, bool runs) {
    if (!runs) {
        compute_.erase(tid);
    } else if (computing_.computes(target_.pid(), tid)) {
        compute_.insert(tid);
    }
}

// Where a thread will go on is told only of one that is on no CPU (lib/syscall.c of the kernel,
// task_current_syscall).
bool ThreadsAtRest::rests(Tid tid) const {
    if (target_.is_stopped(tid)) {
        return true;
    }
    const auto kernel = try_read_kernel_state(target_.pid(), tid);
    return !kernel || kernel->has_ended() || kernel->is_kernels_worker ||
           (kernel->state != 'R' && kernel->pc.value() != 0);
}

void ThreadsAtRest::on_resumed(Tid tid) {
    if (begun_) {
        unseen_.add(tid);
    }
}

void ThreadsAtRest::on_thread_gone(Tid tid) {
    unseen_.erase(tid);
    compute_.erase(tid);
}

bool ThreadsAtRest::all_but_computing_rest() const {
    return begun_ && unseen_.size() == compute_.size() && !any_is_expected();
}

} // namespace memleax
