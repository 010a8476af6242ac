// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/thread_priority.hpp"

#include <sched.h>

namespace memleax {

namespace {

constexpr int kThisThread = 0;

/// What remains after it ran before others: nobody without CAP_SYS_NICE gets rid of that flag.
constexpr int kUsual = SCHED_OTHER | SCHED_RESET_ON_FORK;

} // namespace

void run_before_others() {
    const int policy = sched_getscheduler(kThisThread);
    if (policy != SCHED_OTHER && policy != kUsual) { // as somebody has chosen for us
        return;
    }
    sched_param lowest{};
    lowest.sched_priority = sched_get_priority_min(SCHED_RR);
    sched_setscheduler(kThisThread, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

bool runs_before_others() {
    return sched_getscheduler(kThisThread) == (SCHED_RR | SCHED_RESET_ON_FORK); // by the above
}

void run_as_usual() {
    if (runs_before_others()) {
        const sched_param usual{};
        if (sched_setscheduler(kThisThread, SCHED_OTHER, &usual) != 0) {
            sched_setscheduler(kThisThread, kUsual, &usual);
        }
    }
}

} // namespace memleax
