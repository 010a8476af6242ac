// SPDX-License-Identifier: GPL-3.0-or-later
/// One run of memleax from the command line's meaning to the exit status.
#pragma once

#include <csignal>

#include "memleax/options.hpp"

namespace memleax {

/// Watches as `options` say, prints live lines and the final report, and returns the exit status:
/// 0, 1 after an error (told on stderr), or options.error_exitcode if expired blocks are live at
/// the end. The target is as it was when this returns. `inherited` is the signal mask that memleax
/// was started with, and a command gets.
int run_session(const Options& options, const sigset_t& inherited);

/// Blocks the signals that a session reads from a descriptor, in this thread and those it will
/// make, and returns the mask before.
sigset_t block_session_signals();

} // namespace memleax
