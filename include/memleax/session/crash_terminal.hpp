// SPDX-License-Identifier: GPL-3.0-or-later
/// What a crash of ours must not leave behind: a terminal without echo.
#pragma once

#include <termios.h>

namespace memleax {

struct CrashTerminal {
    termios mode{};            ///< what standard input is set to
    int fd = -1;               ///< where `farewell` is written
    const char* farewell = ""; ///< brings the terminal out of what the mode does not tell
};

/// To be restored by the handler of fatal signals (EmergencyExit), until called with null. It must
/// live so long.
void set_crash_terminal(const CrashTerminal* terminal);
/// Once, by who is about to end us. Async-signal-safe.
void restore_crash_terminal();

} // namespace memleax
