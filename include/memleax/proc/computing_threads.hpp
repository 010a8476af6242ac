// SPDX-License-Identifier: GPL-3.0-or-later
/// Which of the threads that run do compute. /proc says "running" of one as well that is awake for
/// a moment in the midst of a blocking write, to copy a part; and on a loaded machine it may say so
/// for a long time, as such a thread waits for a CPU. What tells them apart is how long a thread
/// has been executing since it last slept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "memleax/base/types.hpp"
#include "memleax/proc/blocking_descriptors.hpp"
#include "memleax/proc/executed_ticks.hpp"

namespace memleax {

class ComputingThreads {
  public:
    /// Of a thread of `pid` that was found running. Has it executed for as long as passing on
    /// many megabytes takes, 5 ms at least, since it was first asked about, and not slept in
    /// between? A transfer that had not to wait for its peer for so long, a stop will hardly hit
    /// while it does.
    bool computes(Tid pid, Tid tid);
    /// The same of one that may be in a transfer that takes longer: a thread last found asleep in
    /// one, whose peer may keep up with it, or one that may pass on what is slower than a pipe. It
    /// has computed in its own code, or for 32 times as long.
    bool computes_by_itself(Tid pid, Tid tid);
    /// Whichever of the two its process's `descriptors` ask for.
    bool computes_in_no_transfer(Tid pid, Tid tid, BlockingDescriptors& descriptors) {
        return computes(pid, tid) && (!descriptors.any_slow() || computes_by_itself(pid, tid));
    }

  private:
    struct Look {
        std::int64_t executed_ns = 0;
        std::uint64_t sleeps = 0;
        std::optional<ExecutedTicks> ticks; ///< when computes_by_itself() was first asked
    };
    /// Since the look that it returns.
    std::pair<Look&, std::int64_t> executed_since_sleep(Tid tid, const std::string& folder);

    std::map<Tid, Look> first_looks_; ///< since the last sleep
};

} // namespace memleax
