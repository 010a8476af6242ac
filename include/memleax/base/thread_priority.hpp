// SPDX-License-Identifier: GPL-3.0-or-later
/// Which thread gets a CPU: ours, or those of the process that it lets go on?
#pragma once

namespace memleax {

/// Lets this thread run before all of usual priority (SCHED_RR, the lowest; sched(7)), if we may:
/// CAP_SYS_NICE or RLIMIT_RTPRIO, and a control group with a share of it. setpriority(2) does not
/// do that where the scheduler groups by sessions (autogroup) or control groups. For a few
/// milliseconds in which it waits for nobody.
void run_before_others();

/// Does it?
[[nodiscard]] bool runs_before_others();

/// No longer.
void run_as_usual();

/// While it lives, this thread runs before others, if it may.
class BeforeOthers {
  public:
    BeforeOthers() : did_before_(runs_before_others()) { run_before_others(); }
    ~BeforeOthers() {
        if (!did_before_) {
            run_as_usual();
        }
    }
    BeforeOthers(const BeforeOthers&) = delete;
    BeforeOthers& operator=(const BeforeOthers&) = delete;

  private:
    bool did_before_;
};

} // namespace memleax
