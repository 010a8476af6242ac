// SPDX-License-Identifier: GPL-3.0-or-later
/// Tests that do one thing again and again, at random moments: short by default, long by option.
///
/// MEMLEAX_STRESS_COUNT is the factor by which the number of repetitions is multiplied,
/// MEMLEAX_STRESS_SEED where the random numbers begin. A test that fails prints the line that runs
/// it again.
#pragma once

#include <random>

namespace memleax::testing {

class Stress {
  public:
    /// `count`: of repetitions in a short run.
    explicit Stress(int count);
    Stress(const Stress&) = delete;
    Stress& operator=(const Stress&) = delete;
    ~Stress();

    /// Is there another repetition to do? No more after the first that failed.
    bool next();
    /// A random number from 1 to `highest`.
    int number_to(int highest);

  private:
    unsigned seed_;
    int factor_;
    int left_;
    std::minstd_rand random_;
};

} // namespace memleax::testing
