// SPDX-License-Identifier: GPL-3.0-or-later
/// The freezer of control groups (docker pause, systemctl freeze), version 1 and 2: a frozen
/// process executes nothing, so nobody can make it stop, or make a system call for us, before it is
/// thawed.
#pragma once

#include <optional>
#include <string>

#include "memleax/base/types.hpp"

namespace memleax {

/// The file that says that the process is frozen, or is being frozen; nothing if it is not, or if
/// no file system of control groups that we see can tell.
std::optional<std::string> file_of_freezer(Tid pid);

} // namespace memleax
