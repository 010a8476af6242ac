// SPDX-License-Identifier: GPL-3.0-or-later
/// System calls that end with EINTR because of us. Most are begun again by the kernel, when a stop
/// was all that happened (ERESTARTSYS and its like); these are not (signal(7), "Interruption of
/// system calls and library functions by stop signals"), and there are programs that take EINTR for
/// an error, as they have no signal handler and so never saw one.
#pragma once

#include <cstdint>
#include <optional>

#include <absl/container/flat_hash_map.h>

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/thread_table.hpp"

namespace memleax {

/// Those of one process. A thread that has gone is no error.
class InterruptedCalls {
  public:
    /// `threads` and `memory` are the process's, and outlive this.
    InterruptedCalls(Tid pid, const ThreadTable& threads, RemoteMemory& memory)
        : pid_(pid), threads_(threads), memory_(memory) {}

    /// A thread is about to be interrupted: notes the call that it is asleep in, where the
    /// registers do not tell it afterwards.
    void on_interrupt(Tid tid);
    /// It goes on from its stop.
    void on_resume(Tid tid) {
        if constexpr (arch::kResultReplacesArgument) {
            asleep_in_.erase(tid);
        }
    }
    /// It has run: what it was to begin again is over.
    void on_trap(Tid tid) {
        if (!begun_again_.empty()) {
            begun_again_.erase(tid);
        }
    }
    void forget(Tid tid) {
        on_resume(tid);
        on_trap(tid);
        waiting_.erase(tid);
    }
    /// If this stop, or a signal that the target ignores and that only a traced thread wakes up
    /// for, has ended a system call with EINTR that without us would have gone on: begins it anew.
    /// Likewise one that the kernel would continue by a call that the thread's filter may forbid.
    /// `signal`: what it is about to get, or 0.
    void begin_again(Tid tid, int signal);
    /// If a handler of this signal is to run before such a thread has got back into its call: ends
    /// the call with EINTR after all, as the handler would have. The thread may be waiting for
    /// nothing else.
    void end_begun_again(Tid tid, int signal);
    /// Before the registers of an interrupted thread are replaced for a while, where the kernel
    /// does not see any more, when they are back, in which call it was: what it would do then.
    void finish(Tid tid, arch::Registers* regs);
    /// Of a stopped thread with these registers: has the stop interrupted a system call that it was
    /// asleep in? False if that is not certain.
    [[nodiscard]] bool was_asleep(Tid tid, const arch::Registers& regs) const;

  private:
    /// Stands before a system call that we made it begin again, or has begun it since.
    struct CallBegunAgain {
        CodeAddr pc;
        RemoteAddr sp;
        std::uint64_t first_argument;
    };
    /// A call with a time limit that we have made begin again.
    struct Waiting {
        long call = -1;
        CodeAddr pc;
        RemoteAddr sp;
        MonotonicNs since;
        std::uint64_t sleeps = 0; ///< of the thread (times_slept())
    };
    [[nodiscard]] bool is_at_system_call(CodeAddr pc);
    /// What a call, about to begin again, is to end with instead, as its time is over.
    std::optional<int> ends_with(Tid tid, long call, const arch::Registers& regs);

    Tid pid_;
    const ThreadTable& threads_;
    RemoteMemory& memory_;
    /// The system call that a thread was asleep in when we interrupted it, as /proc tells; noted
    /// only where the registers do not tell it any more (arch::kResultReplacesArgument).
    absl::flat_hash_map<Tid, KernelState> asleep_in_;
    absl::flat_hash_map<Tid, CallBegunAgain> begun_again_;
    absl::flat_hash_map<Tid, Waiting> waiting_;
};

} // namespace memleax
