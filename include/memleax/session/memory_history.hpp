// SPDX-License-Identifier: GPL-3.0-or-later
/// The target's memory over the time of a session, in bounded space.
#pragma once

#include <vector>

#include "memleax/report/report.hpp"

namespace memleax {

/// A sample each second at first. When there are kMost, every other one is dropped, and the
/// distance doubles: a session of a week has as many points as one of ten minutes.
class MemoryHistory {
  public:
    static constexpr std::size_t kMost = 600;

    /// Is it time for a sample?
    [[nodiscard]] bool is_due(double time_s) const {
        return samples_.empty() || time_s >= samples_.back().time_s + distance_s_;
    }
    void add(const Report::MemorySample& sample);
    [[nodiscard]] const std::vector<Report::MemorySample>& samples() const { return samples_; }

  private:
    double distance_s_ = 1;
    std::vector<Report::MemorySample> samples_;
};

} // namespace memleax
