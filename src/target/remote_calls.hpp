// SPDX-License-Identifier: GPL-3.0-or-later
/// System calls of ours that stopped threads of a process perform.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "arch.hpp"
#include "interrupted_calls.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/thread_table.hpp"
#include "stepper.hpp"

namespace memleax {

class Target;

/// The thread's registers, signal mask, the call in which it was interrupted and its pending
/// signals are as before. The result is the kernel's (-errno).
class RemoteCalls {
  public:
    RemoteCalls(Target& target, ThreadTable& threads, InterruptedCalls& interrupted,
                Stepper& stepper)
        : target_(target), threads_(threads), interrupted_(interrupted), stepper_(stepper) {}

    Result<long> perform(Tid tid, long number, std::initializer_list<std::uint64_t> arguments);
    /// In a stopped thread of another address space: a forked child's, a new program's.
    Result<long> perform_in_copy(Tid tid, RemoteMemory& memory, long number,
                                 std::initializer_list<std::uint64_t> arguments);
    /// Where arch::kParkingBytes lie in a page of ours. Without them, the first call is made in the
    /// padding behind some module's code.
    void set_parking(std::optional<CodeAddr> parking) { parking_ = parking; }

  private:
    /// In a thread of `process`, whose memory that is.
    Result<long> perform(Tid tid, Tid process, RemoteMemory& memory,
                         std::optional<CodeAddr> parking, long number,
                         std::span<const std::uint64_t> arguments);
    Result<void> prepare(Tid tid);
    /// `to_signal_stop`: where the signal of the thread's stop can be put back.
    Result<long> execute(Tid tid, const arch::Registers& saved, CodeAddr instruction, long number,
                         std::span<const std::uint64_t> arguments, bool to_signal_stop);
    /// Is this thread, which has been stopped for something else, another by now? The one that
    /// executes a program gets the first thread's id.
    [[nodiscard]] bool stands_in_another_program(Tid tid) const;

    Target& target_;
    ThreadTable& threads_;
    InterruptedCalls& interrupted_;
    Stepper& stepper_;
    std::optional<CodeAddr> parking_;
    std::optional<CodeAddr> padding_; ///< where the last call without parking was made
};

} // namespace memleax
