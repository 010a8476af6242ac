// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

/// The process that the options name, by its id in our own PID namespace; 0 if they name a program
/// that is to be started. Does not look whether there is one.
Result<Tid> chosen_process(const SessionOptions& options);

} // namespace memleax
