// SPDX-License-Identifier: GPL-3.0-or-later
/// Which of the threads that run, and sleep again and again, do that in no transfer. Those that
/// wait for each other's locks all the time never compute for long (ComputingThreads), and nobody
/// sees what they have just slept in.
#pragma once

#include <cstdint>
#include <map>

#include "memleax/base/types.hpp"
#include "memleax/proc/blocking_descriptors.hpp"
#include "memleax/proc/executed_ticks.hpp"

namespace memleax {

/// Of one process.
class RestlessThreads {
  public:
    /// `descriptors` are those of the process.
    RestlessThreads(Tid pid, BlockingDescriptors& descriptors)
        : pid_(pid), descriptors_(descriptors) {}

    /// Of a thread that was found running. Is it hardly in a transfer, after all that has been
    /// seen? It was found running a hundred times, and had slept in between, so it was another
    /// moment of its doings each time; in no transfer since (forget()). It has computed for a fifth
    /// of that, so it was not in one that lasted for all the time. It has ended no call like
    /// write(2), and the process has no socket that waits, so it makes no short ones either. False
    /// where the kernel does not count these calls (CONFIG_TASK_XACCT).
    bool sleeps_elsewhere(Tid tid);
    /// It was found in a transfer: what was seen before says nothing.
    void forget(Tid tid) { seen_.erase(tid); }

  private:
    struct Seen {
        std::uint64_t write_calls = 0;
        std::uint64_t sleeps = 0;
        ExecutedTicks begun; ///< when the moments began that are not judged yet
        unsigned moments = 0;
        bool is_known = false; ///< by those before
    };

    Tid pid_;
    BlockingDescriptors& descriptors_;
    std::map<Tid, Seen> seen_;
};

} // namespace memleax
