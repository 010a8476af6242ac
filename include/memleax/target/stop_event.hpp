// SPDX-License-Identifier: GPL-3.0-or-later
/// What waitpid says about a traced thread, decoded once (ptrace(2), "Stopped states"). Nobody but
/// src/target/ looks at status bits.
#pragma once

#include <variant>

#include "memleax/base/types.hpp"

namespace memleax {

/// Signal-delivery-stop with SIGTRAP: a breakpoint of ours, one of the target's, or a SIGTRAP that
/// somebody sent.
struct TrapStop {
    Tid tid;
};

/// Signal-delivery-stop with any other signal; the thread gets it when resumed with it.
struct SignalStop {
    Tid tid;
    int signal = 0;
};

/// The process is stopped by job control (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU); to be kept with
/// Target::listen.
struct GroupStop {
    Tid tid;
    int signal = 0;
};

/// PTRACE_EVENT_STOP with SIGTRAP: the stop that PTRACE_INTERRUPT asked for, the first stop of a
/// newborn thread, or the end of a group-stop.
struct QuietStop {
    Tid tid;
};

/// The first stop of a new child *process* of the target.
struct ChildStop {
    Tid tid;
    bool shares_memory = false; ///< CLONE_VM without CLONE_THREAD: vfork, posix_spawn, system
};

/// The parent's stop after clone, fork or vfork. The child reports on its own, before or after.
struct BirthStop {
    Tid tid;
    Tid child;
    bool by_fork = false; ///< most probably the child has a copy of the memory
};

/// execve has replaced the process's memory; all other threads are gone.
struct ExecStop {
    Tid tid;    ///< now the leader's id
    Tid former; ///< the id under which the calling thread was known
};

/// The thread is gone. For a leader: the process is gone.
struct ThreadGone {
    Tid tid;
    int status = 0; ///< as from waitpid
};

using StopEvent = std::variant<TrapStop, SignalStop, GroupStop, QuietStop, ChildStop, BirthStop,
                               ExecStop, ThreadGone>;

/// The thread that an event is about.
inline Tid tid_of(const StopEvent& event) {
    return std::visit([](const auto& e) { return e.tid; }, event);
}

/// Whoever deals with a process's stops.
class StopHandler {
  public:
    virtual ~StopHandler() = default;
    /// A TrapStop that has to wait for its turn: what it takes for the thread to go on unharmed,
    /// and without the signal, should we die before that. False if the signal is the target's own.
    virtual bool move_hit_to_slot(Tid tid) = 0;
    /// Will this TrapStop take as long as many others?
    [[nodiscard]] virtual bool takes_long(Tid tid) const = 0;
    /// Leaves the thread running, or where it belongs.
    virtual void on_stop(const StopEvent& event) = 0;
};

} // namespace memleax
