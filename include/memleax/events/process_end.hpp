// SPDX-License-Identifier: GPL-3.0-or-later
/// How a process ended, in words, and as a shell has it.
#pragma once

#include <optional>
#include <string>

namespace memleax {

/// "exit status 0", "killed by signal 9"; `status` is as from waitpid, absent if it is not known.
std::string end_text(std::optional<int> status);

/// As a shell's $?: the exit status, or 128 + the signal's number.
int shell_status(int status);

} // namespace memleax
