// SPDX-License-Identifier: GPL-3.0-or-later
/// For the making of a thread, which inherits the mask: signals that are sent to the process are
/// for threads that know what they mean.
#pragma once

#include <csignal>

namespace memleax {

/// While it lives, this thread gets no signal.
class AllSignalsBlocked {
  public:
    AllSignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

} // namespace memleax
