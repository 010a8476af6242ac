// SPDX-License-Identifier: GPL-3.0-or-later
/// A crash of the main thread must not cost the target its life.
#pragma once

#include "memleax/session/process_account.hpp"
#include "memleax/session/watcher.hpp"

namespace memleax {

/// While this lives, a fatal signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) of any thread but
/// the tracer makes the watcher leave the target before the signal takes its course. One at a time.
class EmergencyExit {
  public:
    EmergencyExit(Watcher& watcher, ProcessAccounts& accounts);
    ~EmergencyExit();
    EmergencyExit(const EmergencyExit&) = delete;
    EmergencyExit& operator=(const EmergencyExit&) = delete;
};

} // namespace memleax
