// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/stopped_share.hpp"

#include <ctime>

#include <fmt/format.h>

#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// '?' if the thread is gone. The name, which stands before it in parentheses, may have any in it.
char state_of(Tid pid, Tid tid) {
    const auto stat =
        try_read_proc_file(fmt::format("/proc/{}/task/{}/stat", pid.value(), tid.value()));
    const auto end = stat ? stat->rfind(") ") : std::string::npos;
    return end != std::string::npos && end + 2 < stat->size() ? (*stat)[end + 2] : '?';
}

} // namespace

StopSamples sample_stops(Tid pid, std::int64_t duration_ns) {
    constexpr timespec kPause{0, 1'000'000};
    StopSamples samples;
    const std::int64_t end = monotonic_now().value() + duration_ns;
    for (;;) {
        for (const Tid tid : list_threads(pid)) {
            const char state = state_of(pid, tid);
            samples.running += state == 'R' ? 1 : 0;
            samples.stopped += state == 't' ? 1 : 0;
        }
        if (monotonic_now().value() >= end) {
            return samples;
        }
        nanosleep(&kPause, nullptr);
    }
}

} // namespace memleax
