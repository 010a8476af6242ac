// SPDX-License-Identifier: GPL-3.0-or-later
/// The threads of one process that we trace, and the state in which each was last seen.
#pragma once

#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"

namespace memleax {

/// A thread that we trace.
struct TracedThread {
    enum class State {
        running,  ///< or asleep in the kernel
        stopped,  ///< in a ptrace-stop that has been reported to us
        listening ///< in a group-stop, kept there by PTRACE_LISTEN
    };
    State state = State::running;
    /// Stopped in the middle of clone, fork or exec (true), whose result the kernel has not yet put
    /// into the registers: they must not be replaced before that call is over.
    bool in_system_call = false;
    bool in_vfork = false; ///< and it will not be over before the child has its own memory
    int stop_signal = 0;   ///< of a signal-delivery-stop: what it is about to get; 0 otherwise
    bool is_child_process = false; ///< a vfork-like child, which shares the target's memory
};

/// Only the book: whoever stops a thread or lets it run writes that down here.
class ThreadTable {
  public:
    using Map = absl::flat_hash_map<Tid, TracedThread>;

    [[nodiscard]] const Map& all() const { return threads_; }
    /// Null if it is not known.
    [[nodiscard]] TracedThread* find(Tid tid) {
        const auto it = threads_.find(tid);
        return it != threads_.end() ? &it->second : nullptr;
    }
    [[nodiscard]] const TracedThread* find(Tid tid) const {
        const auto it = threads_.find(tid);
        return it != threads_.end() ? &it->second : nullptr;
    }
    /// A running one if it was not known.
    TracedThread& operator[](Tid tid) { return threads_[tid]; }
    void remove(Tid tid) { threads_.erase(tid); }
    /// In no order; the table may change while the list is used.
    template <typename Predicate>
    [[nodiscard]] std::vector<Tid> tids_if(const Predicate& predicate) const {
        std::vector<Tid> tids;
        for (const auto& [tid, thread] : threads_) {
            if (predicate(tid, thread)) {
                tids.push_back(tid);
            }
        }
        return tids;
    }

    // Of one that is not known: false, or 0.
    [[nodiscard]] bool is_stopped(Tid tid) const {
        const TracedThread* thread = find(tid);
        return thread != nullptr && thread->state == TracedThread::State::stopped;
    }
    [[nodiscard]] bool is_child_process(Tid tid) const {
        const TracedThread* thread = find(tid);
        return thread != nullptr && thread->is_child_process;
    }
    [[nodiscard]] int stop_signal(Tid tid) const {
        const TracedThread* thread = find(tid);
        return thread != nullptr ? thread->stop_signal : 0;
    }

  private:
    Map threads_;
};

} // namespace memleax
