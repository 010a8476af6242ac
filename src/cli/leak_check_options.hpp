// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/cli/options.hpp"

namespace memleax {

/// --leak-check is one look, at one process that runs. Throws UsageError where other options want
/// more, or a form that its report does not have.
void check_leak_check(const Options& options);

} // namespace memleax
