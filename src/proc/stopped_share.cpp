// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/stopped_share.hpp"

#include <ctime>

#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

StopSamples sample_stops(Tid pid, std::int64_t duration_ns) {
    constexpr timespec kPause{0, 1'000'000};
    StopSamples samples;
    const std::int64_t end = monotonic_now().value() + duration_ns;
    for (;;) {
        for (const Tid tid : list_threads(pid)) {
            const auto info = try_read_process_info(tid);
            samples.running += info && info->state == 'R' ? 1 : 0;
            samples.stopped += info && info->state == 't' ? 1 : 0;
        }
        if (monotonic_now().value() >= end) {
            return samples;
        }
        nanosleep(&kPause, nullptr);
    }
}

} // namespace memleax
