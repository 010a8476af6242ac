// SPDX-License-Identifier: GPL-3.0-or-later
/// The allocator calls that a thread is in, from entry to return.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "memleax/allocators/allocator_api.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Deep enough to find the call that made another one, when only a walk can tell.
inline constexpr unsigned kNestingWalkLimit = 256;

/// A call that has begun. It is recognised at its return by (thread, stack pointer, return
/// address).
struct PendingCall {
    const AllocatorFunction* function = nullptr;
    CodeAddr entry; ///< the address that was called
    CodeAddr return_address;
    RemoteAddr sp_after_return;
    std::uint64_t size = 0; ///< bytes asked for
    RemoteAddr old_block;   ///< of realloc; null if none
    RemoteAddr out;         ///< where the result is stored, if not returned
    RemoteAddr old_break;   ///< of brk; null if it could not be read
    RemoteAddr new_break;   ///< of brk: what it asks for
    StackId stack = kNoStack;
    AllocatedBy by = AllocatedBy::unclear;
    bool hidden = false;                ///< the user is not told of it
    MemoryKind kind = MemoryKind::heap; ///< of what a MappingCall maps
};

/// How a call that begins relates to those pending.
enum class Nesting {
    outermost, ///< nothing above it that we know of
    nested,    ///< made by a pending call (calloc calling malloc), or its continuation (tail call)
    unclear    ///< a signal handler may be running, or have been left: the stack must be walked
};

/// One thread's stack of them. The stack grows down on every CPU that we support.
class PendingCalls {
  public:
    [[nodiscard]] bool empty() const { return calls_.empty(); }
    [[nodiscard]] std::size_t size() const { return calls_.size(); }
    [[nodiscard]] bool awaits(CodeAddr return_address) const {
        return std::any_of(calls_.begin(), calls_.end(), [return_address](const PendingCall& call) {
            return call.return_address == return_address;
        });
    }
    void push(const PendingCall& call) { calls_.push_back(call); }

    /// A call of `entry` begins whose frame ends at `sp_after_return`. Calls that cannot return any
    /// more, because the stack is already shorter (longjmp or an exception went through them), are
    /// moved to `abandoned`.
    Nesting on_entry(CodeAddr entry, RemoteAddr sp_after_return,
                     std::vector<PendingCall>* abandoned);

    /// The thread has come back to `return_address` with this stack pointer. The call that
    /// returned, if it is a pending one; those inside it that will never return go to `abandoned`.
    std::optional<PendingCall> on_return(CodeAddr return_address, RemoteAddr sp,
                                         std::vector<PendingCall>* abandoned);

    /// The innermost, for the answer to `unclear`.
    [[nodiscard]] const PendingCall& innermost() const { return calls_.back(); }
    PendingCall pop();

    /// A signal is about to be delivered: if a handler runs, its calls are not made by ours, and it
    /// may never come back (siglongjmp).
    void signal_delivered() { handler_possible_ = !calls_.empty(); }
    void handler_gone() { handler_possible_ = false; }

  private:
    std::vector<PendingCall> calls_;
    bool handler_possible_ = false;
};

} // namespace memleax
