// SPDX-License-Identifier: GPL-3.0-or-later
/// System calls of ours that stopped threads of a process perform.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arch.hpp"
#include "interrupted_calls.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_call.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/thread_table.hpp"
#include "stepper.hpp"

namespace memleax {

class RemoteSession;
class Target;

/// The thread's registers, signal mask, the call in which it was interrupted and its pending
/// signals are as before. The result is the kernel's (-errno).
class RemoteCalls {
  public:
    /// See arch::trap_handler_code().
    struct OwnPage {
        RemoteAddr begin;
        /// The code that a call is made by: a thread stays there, or comes back by itself.
        [[nodiscard]] AddrRange parking() const {
            return AddrRange::at(begin + arch::trap_handler_code().parking,
                                 arch::kParkingBytes.size());
        }
        [[nodiscard]] AddrRange way_back() const {
            return AddrRange::at(begin + arch::trap_handler_code().way_back, arch::kWayBackBytes);
        }
        /// And by which several are made.
        [[nodiscard]] AddrRange calls() const {
            const arch::TrapHandlerCode code = arch::trap_handler_code();
            return AddrRange::at(begin + code.calls, code.calls_end - code.calls);
        }
    };

    RemoteCalls(Target& target, ThreadTable& threads, InterruptedCalls& interrupted,
                Stepper& stepper)
        : target_(target), threads_(threads), interrupted_(interrupted), stepper_(stepper) {}

    Result<long> perform(Tid tid, long number, std::initializer_list<std::uint64_t> arguments);
    /// In a stopped thread of another address space: a forked child's, a new program's.
    Result<long> perform_in_copy(Tid tid, RemoteMemory& memory, long number,
                                 std::initializer_list<std::uint64_t> arguments);
    /// Several of them, at the cost of one where that can be done. None of them may unmap our page.
    Result<std::vector<long>> perform_in_copy(Tid tid, RemoteMemory& memory,
                                              std::span<const RemoteCall> calls);
    /// clone(2), by a thread of the process that is stopped for no signal but that of our
    /// breakpoint. As soon as it has been made, `with_child` is called with the child, which is
    /// traced and stands still, or is about to: until its return the code behind the call is there,
    /// which ends the child if it should ever run. Nobody else is told of it. The result is the
    /// child's number as the process sees it. `mappings` are the process's.
    Result<long> perform_clone(Tid tid, std::uint64_t flags, const std::vector<Mapping>& mappings,
                               const std::function<void(Tid child)>& with_child);
    /// Our handler's page, from which calls are made. Without it, the first one is made in the
    /// padding behind some module's code.
    void set_page(std::optional<OwnPage> page) { page_ = page; }

  private:
    /// For calls in a thread of `process`, whose memory that is; `number` 0: several.
    Result<std::unique_ptr<RemoteSession>> begin(Tid tid, Tid process, RemoteMemory& memory,
                                                 std::optional<OwnPage> page, long number);
    Result<long> perform(Tid tid, Tid process, RemoteMemory& memory, std::optional<OwnPage> page,
                         long number, std::span<const std::uint64_t> arguments);
    Result<void> prepare(Tid tid);
    [[nodiscard]] std::optional<OwnPage> page_in(RemoteMemory& copy) const;
    /// Is this thread, which has been stopped for something else, another by now? The one that
    /// executes a program gets the first thread's id.
    [[nodiscard]] bool stands_in_another_program(Tid tid) const;

    Target& target_;
    ThreadTable& threads_;
    InterruptedCalls& interrupted_;
    Stepper& stepper_;
    std::optional<OwnPage> page_;
    std::optional<CodeAddr> padding_; ///< where the last call without parking was made
};

} // namespace memleax
