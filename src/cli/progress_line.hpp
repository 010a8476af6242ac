// SPDX-License-Identifier: GPL-3.0-or-later
/// The line on a terminal's stderr that tells how a timed run is getting on.
#pragma once

#include <cstdint>

#include "memleax/cli/options.hpp"
#include "memleax/session/session.hpp"
#include "timer.hpp"

namespace memleax {

class ProgressLine {
  public:
    /// Only in a timed run, on a terminal, and if nothing else writes on that line.
    static bool wanted(const Options& options, bool interactive);
    explicit ProgressLine(Session& session) : session_(session) {}
    ~ProgressLine() { erase(); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    [[nodiscard]] int timer_fd() const { return timer_.fd(); }
    void on_timer();
    /// Somebody else is about to print.
    void erase();

  private:
    Session& session_;
    Timer timer_{0.5};
    std::uint64_t events_before_ = 0;
    double time_before_ = 0;
    bool visible_ = false;
};

} // namespace memleax
