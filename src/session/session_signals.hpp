// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>

namespace memleax {

/// Those that a session reads (SignalReader).
sigset_t session_signals();

} // namespace memleax
