// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/cli/options.hpp"

namespace memleax {

/// Is --leak-check all there is to do: one look, at one process that runs? Not with an option or a
/// command that asks for watching; then it comes at the end.
bool is_single_look(const Options& options);

/// Throws UsageError where a single look is to have a form that its report does not have.
void check_leak_check(const Options& options);

/// Throws UsageError if an exit status is wanted for lost blocks, and nobody looks for them.
void check_errors_for_lost(const Options& options);

} // namespace memleax
