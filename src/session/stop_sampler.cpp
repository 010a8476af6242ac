// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/stop_sampler.hpp"

#include <algorithm>

#include "memleax/base/clock.hpp"

namespace memleax {

void StopSampler::sample(MonotonicNs now) {
    constexpr std::int64_t kDistanceNs = 20'000'000;
    /// Of thousands of threads, which take milliseconds, looks are rarer: half a percent of a CPU.
    constexpr std::int64_t kTimesWhatOneTakes = 200;
    if (now < due_) {
        return;
    }
    const MonotonicNs begin = monotonic_now();
    for (ProcessAccount* process : processes_.active()) {
        const ProcessFacts facts = process->facts();
        if (!facts.ended && !facts.stopped) { // one that somebody has stopped stands still anyway
            process->add_stops(sample_stops(facts.pid, 0));
        }
    }
    const std::int64_t took = monotonic_now().value() - begin.value();
    due_ = MonotonicNs(now.value() + std::max(kDistanceNs, kTimesWhatOneTakes * took));
}

} // namespace memleax
