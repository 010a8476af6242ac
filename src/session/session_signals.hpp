// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>

namespace memleax {

/// Those that a session reads (SignalReader).
sigset_t session_signals();

/// Those of them that end one.
inline constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};

/// While it lives, they do what they do to any program that was given this mask: where nothing has
/// been done to a target.
class SignalsLetThrough {
  public:
    explicit SignalsLetThrough(const sigset_t& mask) {
        pthread_sigmask(SIG_SETMASK, &mask, &before_);
    }
    ~SignalsLetThrough() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsLetThrough(const SignalsLetThrough&) = delete;
    SignalsLetThrough& operator=(const SignalsLetThrough&) = delete;

  private:
    sigset_t before_{};
};

} // namespace memleax
