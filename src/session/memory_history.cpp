// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/memory_history.hpp"

namespace memleax {

void MemoryHistory::add(const Report::MemorySample& sample) {
    if (samples_.size() == kMost) {
        std::vector<Report::MemorySample> kept;
        for (std::size_t i = 0; i < samples_.size(); i += 2) {
            kept.push_back(samples_[i]);
        }
        samples_ = std::move(kept);
        distance_s_ *= 2;
    }
    samples_.push_back(sample);
}

} // namespace memleax
