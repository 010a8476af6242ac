// SPDX-License-Identifier: GPL-3.0-or-later
/// Waiting for one thread of a process, while stops of others come.
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/base/types.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/tracer.hpp"

namespace memleax {

class Target;

/// Stops of other processes are put off until their turn.
class StopWait {
  public:
    /// A thread that is frozen (cgroup v2) does not run before it is thawed, but stops if it is
    /// asked.
    static constexpr std::int64_t kMostMsUntilItRuns = 5000;

    StopWait(Target& target, Tracer& tracer) : target_(target), tracer_(tracer) {}

    /// As Tracer::wait_for(), with `flags` of waitid(2).
    std::optional<StopEvent> wait_for(Tid tid, int flags);
    /// Waits until a thread stops that was asked to. Nothing if
    ///  - it is the first thread, and ends: the kernel tells of that only when it is the last one;
    ///  - it waits in the kernel where nothing reaches it, for a child by vfork, say, which may
    ///    itself wait for us. It stops before it gets back to its own code.
    std::optional<StopEvent> wait_for_stop(Tid tid);
    /// Waits for a thread that executes something for us; the status if it is stopped.
    std::optional<int> await_status(Tid tid);

  private:
    /// While one thread is waited for, after so many looks at it. Nobody may wait in the kernel for
    /// it alone: an exec is not over before each thread that died for it has been reaped.
    void pause_between_looks(Tid tid, int looks);
    void reap_dead(Tid process);

    Target& target_;
    Tracer& tracer_;
};

} // namespace memleax
