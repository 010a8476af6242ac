// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "arch.hpp"
#include "borrowed_registers.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"
#include "seccomp_suspended.hpp"
#include "signals_held_back.hpp"
#include "stand_in_signal.hpp"
#include "stepper.hpp"

namespace memleax {

class Target;

/// A stopped thread that makes system calls of ours, one after the other. What it takes to get it
/// there and back (registers, signal mask, seccomp filter) is done once for all of them.
class RemoteSession {
  public:
    /// `own` are the thread's registers, `stop_signal` what it is about to get, 0: nothing. The
    /// signal can be put back if its stop has been taken from the kernel just now (`is_owed`).
    /// Where the calls are made is to be said before the first one: borrowed().use() and its like.
    RemoteSession(Target& target, Stepper& stepper, RemoteMemory& memory, Tid tid,
                  const arch::Registers& own, bool is_owed);
    RemoteSession(const RemoteSession&) = delete;
    RemoteSession& operator=(const RemoteSession&) = delete;

    [[nodiscard]] Tid tid() const { return tid_; }
    BorrowedRegisters& borrowed() { return borrowed_; }
    /// The result is the kernel's (-errno). After a failure there is only give_back() left.
    Result<long> call(long number, std::span<const std::uint64_t> arguments);
    /// All of them, by our page, at the cost of one. `calls` fit in the table. Where the thread has
    /// no way back from there by itself, one by one.
    Result<std::vector<long>> call_all(const RemoteCalls::OwnPage& page,
                                       std::span<const RemoteCall> calls);
    /// Mask, filter and registers are the thread's own again. False if it is gone.
    bool give_back();

  private:
    Result<long> execute(long number, std::span<const std::uint64_t> arguments);
    Result<void> lift_filter();
    Result<void> go_to(const arch::Registers& regs);

    Target& target_;
    Stepper& stepper_;
    RemoteMemory& memory_;
    Tid tid_;
    arch::Registers own_;
    BorrowedRegisters borrowed_;
    std::optional<StandInSignal> stand_in_;
    std::optional<SeccompSuspended> unfiltered_;
    std::optional<SignalsHeldBack> held_back_;
};

} // namespace memleax
