// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/session/session_options.hpp"

namespace memleax {

/// Can the debug file and the folders that the user has named be used?
Result<void> check_debug_options(const SessionOptions& options);

} // namespace memleax
