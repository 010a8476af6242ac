// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <absl/container/flat_hash_set.h>

#include "memleax/base/types.hpp"
#include "thread_area.hpp"
#include "thread_pointer_from.hpp"

namespace memleax {

/// Where the agent is to read thread pointers from. Memory is the fastest place, and needs no leave
/// of the kernel; but a thread without thread-local storage has nothing there, and none of the
/// process's reads it as long as there is such a one.
///
/// Threads that have not been seen are taken to be as the others: a sleeping thread's registers
/// cannot be read. Engine::takes_fault() is for the one that is not.
class ThreadPointers {
  public:
    /// `may_ask_cpu`: see arch::agent_may_ask_cpu().
    explicit ThreadPointers(bool may_ask_cpu) : may_ask_cpu_(may_ask_cpu) {}

    /// A thread that stands still has a pointer that is the value of the word that it points to, or
    /// another one.
    void see(Tid tid, bool is_in_memory);
    void on_thread_gone(Tid tid) { without_.erase(tid); }
    [[nodiscard]] arch::ThreadPointerFrom from() const;
    /// The address space is gone.
    void forget() {
        without_.clear();
        any_in_memory_ = false;
    }

  private:
    bool may_ask_cpu_;
    bool any_in_memory_ = false;
    absl::flat_hash_set<Tid> without_; ///< threads whose pointer is not in memory
};

} // namespace memleax
