// SPDX-License-Identifier: GPL-3.0-or-later
/// A text that is drawn anew again and again, as watch(1) does it: the prompt's `watch`.
#pragma once

#include <string>

#include "console.hpp"
#include "memleax/session/crash_terminal.hpp"
#include "timer.hpp"

namespace memleax {

/// As long as it lives, the terminal shows it on its alternate screen, and gives keys at once and
/// without echo; Ctrl-C stays a signal. Then all is as before, and what was shown last is printed.
class WatchScreen {
  public:
    /// `console` is a terminal, and must outlive it. `line` is the command whose output is shown.
    WatchScreen(Console& console, std::string line, double period_s);
    ~WatchScreen();
    WatchScreen(const WatchScreen&) = delete;
    WatchScreen& operator=(const WatchScreen&) = delete;

    [[nodiscard]] const std::string& line() const { return line_; }
    /// Readable when it is time to draw again.
    [[nodiscard]] const Timer& timer() const { return timer_; }
    /// As much of it as there is room for.
    void draw(const std::string& text);
    /// Takes what was typed.
    static void take_keys();

  private:
    Console& console_;
    std::string line_;
    std::string every_;
    Timer timer_;
    CrashTerminal usual_;
    std::string shown_;
};

} // namespace memleax
