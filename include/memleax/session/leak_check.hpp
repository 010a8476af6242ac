// SPDX-License-Identifier: GPL-3.0-or-later
/// --leak-check: one look at the heap of a process, a report, and gone.
#pragma once

#include "memleax/session/session_options.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

/// Returns the exit status: 0; 1 after an error (told on stderr) and where the heap could not be
/// read whole; options.error_exitcode if blocks are definitely lost. No breakpoint is set. Nothing
/// is written to the process with SnapshotWay::copy. The format has a form for it (ReportFormat).
/// Signals do what they do to any program with the mask that was `inherited`, but for the look.
int run_leak_check(const SessionOptions& options, const SpawnAttributes& inherited);

} // namespace memleax
