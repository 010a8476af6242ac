// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/memory_sampler.hpp"

#include <optional>
#include <utility>

#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {

namespace {

/// By the look at the first of the processes that live.
void add_shortage(const MemoryLook& look, Report::MemorySample* sample) {
    const auto stalled = [](const std::optional<MemoryPressure>& pressure) {
        return pressure && pressure->some ? std::optional(pressure->some->total_us) : std::nullopt;
    };
    if (look.group.limit) {
        sample->group_bytes = look.group.used();
        sample->group_limit = look.group.limit;
    }
    sample->group_stalled_us = stalled(look.group.pressure);
    sample->available_bytes = look.machine.available;
    sample->machine_stalled_us = stalled(look.machine.pressure);
}

} // namespace

void MemorySampler::look(MonotonicNs now) {
    for (ProcessAccount* process : processes_.active()) {
        const bool has_ended = process->time(now) != now;
        if (process->has_last_memory() || (has_ended && !process->memory())) {
            continue;
        }
        MemoryLook look = has_ended ? MemoryLook{} : look_at_memory(process->pid());
        if (look.process.rss) {
            process->add_memory(std::move(look), false);
        } else if (process->memory()) { // has its group been its end?
            const MemoryLook& before = process->memory()->last;
            process->add_memory({before.process, look_again(before.group), read_machine_memory()},
                                has_ended);
        }
    }
}

void MemorySampler::sample(MonotonicNs now, double time_s) {
    if (!history_.is_due(time_s)) {
        return;
    }
    look(now);
    Report::MemorySample sample;
    sample.time_s = time_s;
    bool is_first = true;
    for (ProcessAccount* process : processes_.active()) {
        if (process->time(now) == now) {
            sample.live_bytes +=
                process->tracker().with([](Tracker& t) { return t.blocks().bytes(); });
            sample.rss_bytes += try_read_resident_bytes(process->pid()).value_or(0);
            if (process->memory() && std::exchange(is_first, false)) {
                add_shortage(process->memory()->last, &sample);
            }
        }
    }
    history_.add(sample);
}

} // namespace memleax
