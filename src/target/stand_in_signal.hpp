// SPDX-License-Identifier: GPL-3.0-or-later
/// A signal by which a thread that executes a system call for us comes to a signal-delivery-stop.
#pragma once

#include <csignal>
#include <cstdint>

#include <sys/ptrace.h>

#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// A signal that a thread was about to get can be put back into a stop of that kind only, whatever
/// the stop's own signal is (kernel/signal.c, ptrace_signal). This one comes from the kernel
/// itself, to a thread that is let go on from a system call's stop with it (ptrace_report_syscall).
/// Should we die before that stop, the kernel ignores it; where all of them have handlers, one is
/// called, as it may be at any time.
///
/// Not a single step: the thread goes on stepping when its tracer dies (nothing ends that in
/// exit_ptrace), on arm64 in the handler, too (user_fastforward_single_step), where SIGTRAP is
/// blocked, so that the next step kills it.
class StandInSignal {
  public:
    /// For a stopped thread.
    explicit StandInSignal(Tid tid) {
        const auto info = try_read_process_info(tid);
        if (!info) {
            return; // killed
        }
        // Where one of its own is at hand, ours would be taken for the same.
        const std::uint64_t at_hand = info->pending_signals | info->shared_pending_signals;
        for (const std::uint64_t unwanted : {at_hand | info->caught_signals, at_hand}) {
            for (const int candidate : RecoveryRecord::kStandIns) {
                if ((unwanted & signal_bit(candidate)) == 0) {
                    number_ = candidate;
                    return;
                }
            }
        }
    }
    [[nodiscard]] int number() const { return number_; }
    /// What the thread is stopped for has that number. Is it ours, and not one of its own?
    [[nodiscard]] static bool is_ours(Tid tid) {
        siginfo_t info{};
        return ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
               info.si_code == SI_KERNEL;
    }
    /// Likewise, where the thread sends it to itself: arch::TrapHandlerCode::calls.
    [[nodiscard]] static bool is_sent_by_itself(Tid tid) {
        siginfo_t info{};
        return ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
               info.si_code == SI_TKILL;
    }

  private:
    int number_ = RecoveryRecord::kStandIns[0];
};

} // namespace memleax
