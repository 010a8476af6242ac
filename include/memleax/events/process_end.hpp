// SPDX-License-Identifier: GPL-3.0-or-later
/// How a process ended, in words.
#pragma once

#include <optional>
#include <string>

namespace memleax {

/// "exit status 0", "killed by signal 9"; `status` is as from waitpid, absent if it is not known.
std::string end_text(std::optional<int> status);

} // namespace memleax
