// SPDX-License-Identifier: GPL-3.0-or-later
/// Calls of allocator functions, as an engine tells of them.
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/allocators/allocator_api.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

/// A thread is about to execute the first instruction of an allocator's function.
struct CallEntry {
    Tid tid;
    int function = -1;          ///< as CallFollower::add_function() numbered it
    CallArguments arguments{};  ///< integers and pointers (psABI)
    RemoteAddr sp_after_return; ///< the stack pointer that its caller will see after the return
    MonotonicNs time;
};

/// A thread has come to where a call returns to.
struct CallReturn {
    Tid tid;
    CodeAddr address;
    RemoteAddr sp;
    std::uint64_t result = 0; ///< as the called function has left it
    MonotonicNs time;
};

/// What an engine without stops has recorded of a call, and tells later.
struct RecordedCall {
    enum class Kind : std::uint8_t {
        freed,         ///< told before the allocator got the block
        inner_free,    ///< the same, within another call
        allocated,     ///< told after it gave the block; null: it failed
        realloc_began, ///< of this block; `allocated` of the same thread ends it
        realloc_left,  ///< and that will not come: no return was seen
        brief,         ///< an allocation, and the free of the same block
        freed_if_live, ///< `freed`, if that has not been told as `brief` already
        hidden         ///< given out within another call, to who is not the program
    };
    Kind kind{};
    Tid tid;
    int function = -1; ///< as CallFollower::add_function() numbered it
    RemoteAddr block;
    RemoteAddr old_block;     ///< allocated: by realloc, of this one; realloc_left
    std::uint64_t size = 0;   ///< bytes asked for
    StackId stack = kNoStack; ///< freed: none, if nobody asks for it
    CodeAddr caller;          ///< freed: where it returns to
    MonotonicNs time;
    std::int64_t age = 0; ///< brief: in ns
};

/// What can be found out about the call that is being told of, while its thread stands at the
/// entry.
class CallSite {
  public:
    virtual ~CallSite() = default;
    /// Its stack, its own frame first; good until the next walk. Without a second frame there is no
    /// return address.
    virtual const UnwoundStack& walk(unsigned limit) = 0;
    /// What goes into the account of a stack that walk() gave: it may be another unwinder's.
    virtual const UnwoundStack& to_record(const UnwoundStack& walked) { return walked; }
    /// Nothing if its return to this address will be told; else why not.
    virtual std::optional<Unseen> watch_return(CodeAddr return_address) = 0;
    /// Has that been so for all that were asked for, of any call?
    [[nodiscard]] virtual bool watches_all_returns() const = 0;
    /// Is it made by a call that nobody stopped at, and that will be told of as recorded?
    [[nodiscard]] virtual bool is_within_recorded() { return false; }
};

/// Where that call returns to; null if its stack is unreadable.
inline CodeAddr return_address(const UnwoundStack& stack) {
    return stack.frames.size() > 1 ? stack.frames[1].pc() : CodeAddr();
}

} // namespace memleax
