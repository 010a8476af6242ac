// SPDX-License-Identifier: GPL-3.0-or-later
/// The program, after its command line has been understood.
#pragma once

#include "memleax/cli/options.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

/// Watches as `options` say, with a prompt if there is to be one. Returns the exit status.
int run_program(const Options& options, const SpawnAttributes& inherited);

} // namespace memleax
