// SPDX-License-Identifier: GPL-3.0-or-later
/// Killing memleax, of all moments, just then.
#pragma once

#include <optional>

#include <sys/types.h>

#include "process_support.hpp"

namespace memleax::testing {

/// Sees to it that memleax, which is watching, is killed when a thread of its begins its `call`th
/// ptrace call from now on: what the one before has done is done, and the next one is not. By
/// strace, which has to be here, and which ends with it.
class KillAtPtraceCall {
  public:
    KillAtPtraceCall(Memleax& memleax, int call);
    ~KillAtPtraceCall() { strace_->wait_for_end(); }
    KillAtPtraceCall(const KillAtPtraceCall&) = delete;
    KillAtPtraceCall& operator=(const KillAtPtraceCall&) = delete;

  private:
    std::optional<ChildProcess> strace_;
};

/// The process that repairs the target when memleax has been killed. Nothing if this kernel does
/// not list children (CONFIG_PROC_CHILDREN).
std::optional<pid_t> guardian_of(Memleax& memleax);

} // namespace memleax::testing
