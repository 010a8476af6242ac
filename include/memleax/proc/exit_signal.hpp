// SPDX-License-Identifier: GPL-3.0-or-later
/// Children by the signal that their parent gets when they end (clone(2), "The child termination
/// signal").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// From the text of /proc/PID/stat, field 38; nothing if it has none.
std::optional<int> parse_exit_signal(const std::string& stat);

/// Has this process that one? False if it is gone.
bool has_exit_signal(Tid pid, int signal);

/// The children of this process, by all its threads, that have this one; also those that have
/// ended, until somebody reaps them.
std::vector<Tid> children_with_exit_signal(Tid parent, int signal);

} // namespace memleax
