// SPDX-License-Identifier: GPL-3.0-or-later
/// A thread's signal mask while it executes something for us.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>

#include <sys/ptrace.h>

#include "borrowed_mask.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"
#include "stand_in_signal.hpp"

namespace memleax {

enum class Steps { no, yes };

/// Blocks all signals of a stopped thread but those that an instruction raises itself (SIGTRAP only
/// if it is stepped): an instruction that raises a blocked one makes the kernel kill the process
/// (force_sig). What is blocked stays pending, with its siginfo, and comes after the mask is back.
/// So do those that the thread has blocked itself, and that were sent already; SIGTRAP excepted,
/// which a step raises for certain, and a stand-in.
class SignalsHeldBack {
  public:
    SignalsHeldBack(Tid tid, RecoveryRecord& record, Steps steps,
                    const std::optional<StandInSignal>& stand_in = std::nullopt)
        : tid_(tid), mask_(tid, record) {
        std::uint64_t blocked = ~(kExceptionSignals & ~kTrap);
        // Asked only where there is one: /proc takes longer.
        const auto info = has_any_pending() ? try_read_process_info(tid) : std::nullopt;
        if (info) {
            blocked |=
                info->blocked_signals & (info->pending_signals | info->shared_pending_signals);
        }
        blocked = steps == Steps::yes ? blocked & ~kTrap : blocked | kTrap;
        if (stand_in) {
            blocked &= ~signal_bit(stand_in->number());
        }
        mask_.set(blocked);
    }

  private:
    static constexpr std::uint64_t kTrap = signal_bit(SIGTRAP);

    /// Those that are queued (one that had no room there, as its sender has too many, is not).
    [[nodiscard]] bool has_any_pending() const {
        siginfo_t info{};
        for (const std::uint32_t queue :
             {0U, static_cast<std::uint32_t>(PTRACE_PEEKSIGINFO_SHARED)}) {
            __ptrace_peeksiginfo_args from{};
            from.flags = queue;
            from.nr = 1;
            if (ptrace(PTRACE_PEEKSIGINFO, tid_.value(), &from, &info) != 0) {
                return true; // or nobody knows
            }
        }
        return false;
    }

    Tid tid_;
    BorrowedMask mask_;
};

} // namespace memleax
