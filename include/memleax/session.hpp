// SPDX-License-Identifier: GPL-3.0-or-later
/// One run of memleax from the command line's meaning to the exit status.
#pragma once

#include "memleax/inherited.hpp"
#include "memleax/options.hpp"

namespace memleax {

/// Watches as `options` say, prints live lines and the final report, and returns the exit status:
/// 0, 1 after an error (told on stderr), or options.error_exitcode if expired blocks are live at
/// the end. The target is as it was when this returns. A command gets what was `inherited`.
int run_session(const Options& options, const Inherited& inherited);

/// Blocks the signals that a session reads from a descriptor, in this thread and those it will
/// make; ignores those that a lost reader or terminal sends; raises the soft limit of open files,
/// as each module of the target is kept open. Returns what was before.
Inherited prepare_process();

} // namespace memleax
