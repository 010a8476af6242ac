// SPDX-License-Identifier: GPL-3.0-or-later
/// Which of the threads that run do compute. /proc says "running" of one as well that is awake for
/// a moment in the midst of a blocking write, to copy a part; and on a loaded machine it may say so
/// for a long time, as such a thread waits for a CPU. What tells them apart is how long a thread
/// has been executing since it last slept.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "memleax/base/types.hpp"

namespace memleax {

class ComputingThreads {
  public:
    /// Of a thread of `pid` that was found running. Has it executed for as long as passing on
    /// many megabytes takes, 5 ms at least, since it was first asked about, and not slept in
    /// between? A transfer that had not to wait for its peer for so long, a stop will hardly hit
    /// while it does.
    bool computes(Tid pid, Tid tid);
    /// It was found asleep in a transfer. As long as it is not found asleep elsewhere it is taken
    /// for being in that still, and computes only when it has executed for 32 times as long: where
    /// its peer keeps up with it, it need not sleep, and what is not a pipe may be far slower.
    void note_transfer(Tid tid) { transfers_.insert(tid); }
    void note_elsewhere(Tid tid) { transfers_.erase(tid); }

  private:
    struct Look {
        std::int64_t executed_ns = 0;
        std::uint64_t sleeps = 0;
    };
    std::map<Tid, Look> first_looks_; ///< since the last sleep
    std::set<Tid> transfers_;
};

} // namespace memleax
