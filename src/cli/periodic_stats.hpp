// SPDX-License-Identifier: GPL-3.0-or-later
/// --interval: the worst call stacks, again and again.
#pragma once

#include <cstdint>

#include "console.hpp"
#include "memleax/session/session.hpp"
#include "timer.hpp"

namespace memleax {

class PeriodicStats {
  public:
    PeriodicStats(Session& session, const Options& options, Console& console)
        : session_(session), options_(options), console_(console), timer_(*options.interval_s) {}

    [[nodiscard]] int timer_fd() const { return timer_.fd(); }
    /// Prints, and returns whether there is more to come.
    bool on_timer();
    /// Prints nothing this time.
    void skip() { timer_.acknowledge(); }

  private:
    [[nodiscard]] std::string text_of(ProcessAccount& process);

    Session& session_;
    const Options& options_;
    Console& console_;
    Timer timer_;
    std::uint64_t printed_ = 0;
};

} // namespace memleax
