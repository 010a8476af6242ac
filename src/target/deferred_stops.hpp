// SPDX-License-Identifier: GPL-3.0-or-later
/// What stops a thread while it executes something for us.
#pragma once

#include <algorithm>
#include <csignal>
#include <vector>

#include <sys/ptrace.h>

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"

namespace memleax {

/// What came between while a thread executed something for us, and is told or sent again.
class DeferredStops {
  public:
    DeferredStops(Tid tid, RecoveryRecord& record) : tid_(tid), record_(record) {}
    /// The one that it is stopped for. It goes on with what this gives: 0, or that signal, if it
    /// stops the process. That takes effect at once: sent again, it would come behind a SIGCONT
    /// that was meant to end it.
    [[nodiscard]] int signal() {
        siginfo_t info{};
        if (ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &info) != 0) {
            return 0;
        }
        if (ThreadSignals::stops(tid_, info.si_signo)) {
            return info.si_signo;
        }
        record_.owe(tid_, info);
        signals_.push_back(info);
        return 0;
    }
    [[nodiscard]] bool has(int signal) const {
        return std::any_of(signals_.begin(), signals_.end(),
                           [signal](const siginfo_t& info) { return info.si_signo == signal; });
    }
    void stop() { stopped_ = true; }
    void give_back(Target& target) const {
        for (const siginfo_t& info : signals_) {
            target.signals().send_again(tid_, info);
        }
        if (stopped_) {
            target.interrupt(tid_); // told again, as soon as the thread goes on
        }
    }

  private:
    Tid tid_;
    RecoveryRecord& record_;
    std::vector<siginfo_t> signals_;
    bool stopped_ = false;
};

} // namespace memleax
