// SPDX-License-Identifier: GPL-3.0-or-later
/// Killing memleax, of all moments, just then.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "process_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {

/// Sees to it that memleax, which is watching, gets this signal when a thread of its begins its
/// `call`th ptrace call from now on. By strace, which has to be here, and which ends with it.
class SignalAtPtraceCall {
  public:
    SignalAtPtraceCall(Memleax& memleax, int call, const std::string& signal);
    ~SignalAtPtraceCall() { strace_->wait_for_end(); }
    SignalAtPtraceCall(const SignalAtPtraceCall&) = delete;
    SignalAtPtraceCall& operator=(const SignalAtPtraceCall&) = delete;

  private:
    std::optional<ChildProcess> strace_;
};

/// Killed: what the call before has done is done, and the next one is not.
class KillAtPtraceCall : public SignalAtPtraceCall {
  public:
    KillAtPtraceCall(Memleax& memleax, int call) : SignalAtPtraceCall(memleax, call, "SIGKILL") {}
};

/// After so many microseconds at most. This is where it is hit, not a wait for anything.
void kill_at_random_moment(Memleax& memleax, Stress& stress, int most_us);

/// The process that repairs the target when memleax has been killed. Nothing if this kernel does
/// not list children (CONFIG_PROC_CHILDREN).
std::optional<pid_t> guardian_of(Memleax& memleax);

} // namespace memleax::testing
