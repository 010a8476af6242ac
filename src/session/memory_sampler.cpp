// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/memory_sampler.hpp"

#include "memleax/proc/process_memory.hpp"

namespace memleax {

void MemorySampler::sample(MonotonicNs now, double time_s) {
    if (!history_.is_due(time_s)) {
        return;
    }
    Report::MemorySample sample{time_s, 0, 0};
    for (ProcessAccount* process : processes_.all()) {
        if (process->time(now) == now) { // it has not ended
            sample.live_bytes +=
                process->tracker().with([](Tracker& t) { return t.blocks().bytes(); });
            sample.rss_bytes += try_read_resident_bytes(process->pid()).value_or(0);
        }
    }
    history_.add(sample);
}

} // namespace memleax
