// SPDX-License-Identifier: GPL-3.0-or-later
/// Making a stopped thread go on under our eyes: by one instruction, through one system call, or to
/// its next stop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/thread_table.hpp"
#include "stand_in_signal.hpp"

namespace memleax {

class Target;

/// A system call that a thread has made itself.
struct SystemCallMade {
    std::array<std::uint64_t, 4> arguments{};
    long result = 0; ///< see is_errno()
};

/// How a call of ours that makes a process has ended.
struct CloneMade {
    Tid child;       ///< 0: there is none. Else it is traced, and stands still or is about to
    long result = 0; ///< what the thread got; see is_errno()
};

/// Other signals than the thread's own exceptions are held back meanwhile, and nothing that stops
/// it is lost: it is told of, or sent, again. After a failure the thread is gone, unless the Error
/// says otherwise.
class Stepper {
  public:
    Stepper(Target& target, ThreadTable& threads, RecoveryRecord& record)
        : target_(target), threads_(threads), record_(record) {}

    /// Executes one instruction and waits for it; a signal that comes between is kept for later. If
    /// the instruction faults, that SignalStop is deferred.
    Result<void> step(Tid tid);
    /// Lets a stopped thread go on to its next system call but rt_sigprocmask(2). If that is this
    /// one, with this first argument, also through it, after `enter` at its entry: the thread is
    /// then stopped behind it, and what it asked for is returned. Otherwise nothing; the thread is
    /// stopped before its call, or what stopped it earlier has been put aside for next_event(), or
    /// it is gone. For a place from which a thread gets to that call without waiting for others.
    std::optional<SystemCallMade>
    follow_system_call(Tid tid, long number, std::uint64_t first_argument,
                       const std::function<void(const SystemCallMade&)>& enter);
    /// With the registers set for a system call of ours by the instruction there: through it.
    /// EAGAIN: it does not run now. EFAULT: the instruction cannot be executed.
    /// Its signals are held back (SignalsHeldBack). With a stand-in it ends in a
    /// signal-delivery-stop, where a signal can be given to it.
    Result<void> run_system_call(Tid tid, CodeAddr instruction,
                                 const std::optional<StandInSignal>& stand_in);
    /// With the registers set for code of ours that ends there, by sending the thread its stand-in:
    /// to that signal's stop.
    Result<void> run_calls(Tid tid, AddrRange code, const StandInSignal& stand_in);
    /// The same for clone(2). Nobody is told of the child, which is the caller's.
    Result<CloneMade> run_clone(Tid tid, CodeAddr instruction);
    /// Out of the stop of clone, fork or exec, to the next one: then the kernel has put that call's
    /// result into the registers.
    Result<void> settle(Tid tid);

  private:
    [[nodiscard]] static bool has_left(Tid tid, CodeAddr instruction);

    Target& target_;
    ThreadTable& threads_;
    RecoveryRecord& record_;
};

} // namespace memleax
