// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/memory_history.hpp"

#include "memleax/process_memory.hpp"

namespace memleax {

void MemoryHistory::sample(Tid pid, double time_s, std::uint64_t live_bytes) {
    if (samples_.size() == kMost) {
        std::vector<Report::MemorySample> kept;
        for (std::size_t i = 0; i < samples_.size(); i += 2) {
            kept.push_back(samples_[i]);
        }
        samples_ = std::move(kept);
        distance_s_ *= 2;
    }
    samples_.push_back({time_s, live_bytes, try_read_resident_bytes(pid).value_or(0)});
}

} // namespace memleax
