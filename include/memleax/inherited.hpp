// SPDX-License-Identifier: GPL-3.0-or-later
/// What memleax was started with and changes for itself; a command that it starts gets the
/// original.
#pragma once

#include <array>
#include <csignal>

#include <sys/resource.h>

namespace memleax {

/// Those that memleax ignores, whatever it was started with.
inline constexpr std::array kIgnoredSignals{SIGPIPE, SIGTTOU, SIGXFSZ};

struct Inherited {
    sigset_t ignored_signals{}; ///< of kIgnoredSignals and SIGCHLD
    sigset_t signal_mask{};
    rlimit open_files{};
    rlimit data{};
};

} // namespace memleax
