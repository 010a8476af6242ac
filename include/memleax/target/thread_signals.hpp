// SPDX-License-Identifier: GPL-3.0-or-later
/// The signals of stopped threads that are not delivered in the kernel's own time: let through
/// first, held back, sent again.
#pragma once

#include <csignal>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

class Target;

/// Those of one process. What a thread has not got yet is owed to it in the RecoveryRecord.
class ThreadSignals {
  public:
    ThreadSignals(Target& target, RecoveryRecord& record) : target_(target), record_(record) {}

    /// A signal that was taken out of its stop, with its payload.
    void send_again(Tid tid, const siginfo_t& info);
    /// A thread that stands in a signal's stop is to go on without it. It stays owed to it. False:
    /// there are too many already.
    bool hold(Tid tid);
    /// Sends one of the signals that were held back from a thread; it stops with it. False if there
    /// is none.
    bool send_held(Tid tid);
    /// All of them, to whomever they belong.
    void send_all_held();

    /// If it stands in a QuietStop and has a signal pending that it does not block, lets it run
    /// into that signal's stop, which next_event() tells of in place of the other.
    void advance_to(Tid tid);
    /// Lets a stopped thread, whose stop stands in line, run on with its signal for a moment.
    void let_run_on(Tid tid);
    /// Resumes it with the signal that it is stopped for, if any; it stops in a QuietStop, or by
    /// the signal's effect, before it executes anything else (its handler's first instruction).
    void go_past_signal(Tid tid);
    /// Lets it get the signal that it is stopped for, and stops it again before it executes
    /// anything else; puts that stop aside for next_event(). False if it is gone.
    bool deliver_first(Tid tid);

    // For the Target:
    /// It goes on: what it has not got is owed to it as before.
    void on_resume(Tid tid);
    /// It is stopped for a signal: one that was sent again gets its payload back.
    void on_signal_stop(Tid tid, int signal) {
        if (!sent_again_.empty()) {
            restore_payload(tid, signal);
        }
    }
    void forget(Tid tid) {
        sent_again_.erase(tid);
        held_.erase(tid);
    }

  private:
    void restore_payload(Tid tid, int signal);

    Target& target_;
    RecoveryRecord& record_;
    /// Payloads of signals that carry ours instead, until their stops.
    absl::flat_hash_map<Tid, siginfo_t> sent_again_;
    absl::flat_hash_map<Tid, std::vector<siginfo_t>> held_;
};

} // namespace memleax
