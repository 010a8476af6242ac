// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

/// The processes that the options name, by their ids in our own PID namespace, each once; none if
/// they name a program that is to be started. Does not look whether there are any of those ids;
/// says which there are of a name, if they are several.
Result<std::vector<Tid>> chosen_processes(const SessionOptions& options);

} // namespace memleax
