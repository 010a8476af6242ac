// SPDX-License-Identifier: GPL-3.0-or-later
/// Beginnings and ends of blocks, as an engine sees them.
#pragma once

#include <cstdint>

#include "memleax/base/types.hpp"
#include "memleax/events/mapping_event.hpp"

namespace memleax {

/// realloc is one call and one count, but two moments: the old block may be handed to another
/// thread by the allocator *before* realloc returns to its caller, so the tracker must stop taking
/// it for live when the call begins, and can only know at the return whether it succeeded.
enum class EventKind : std::uint8_t {
    alloc, ///< a block: address, size, stack
    brief, ///< a block that has been freed already: address, size, stack, `time` when it
           ///< was allocated, age
    free,  ///< a block is freed: address; sent at the call's entry, before anybody can get the
           ///< address anew. `stack` with --check, or if wants_free_stack() said so
    failed_alloc,   ///< an allocation returned null: size, stack
    realloc_begin,  ///< `tid` called realloc on old_address (never null)
    realloc_end,    ///< `tid`'s realloc succeeded: the block at old_address is freed, the one
                    ///< at address (size, stack) is there; the two addresses may be equal
    realloc_free,   ///< `tid`'s realloc(old_address, 0) freed the block and returned null
    realloc_failed, ///< `tid`'s realloc failed or was abandoned: old_address is live as before
    hidden_alloc,   ///< address is taken by something that is no block of the program's: if it is
                    ///< freed, that is no second free of the block that was there before
    unseen_alloc    ///< an allocation is not followed: any address that is not live may be its.
                    ///< size, `unseen`, and stack, if it is to be counted; old_address, if it is a
                    ///< realloc, of which nobody will know whether it succeeded
};

/// Why the return of an allocation cannot be watched.
enum class Unseen : std::uint8_t {
    generated_code, ///< it returns to code that is no file's: that may be moved or discarded
    no_breakpoint   ///< there can be no breakpoint where it returns to
};
/// A text for reports: "called by generated code", ...
const char* describe(Unseen why);

/// By which kind of function a block begins, and with it by which it is to end.
enum class AllocatedBy : std::uint8_t {
    unclear,      ///< several, or one of the user's: nothing can be said
    c,            ///< malloc and its kin: free, realloc
    operator_new, ///< operator delete
    array_new,    ///< operator delete[]
    no_memory     ///< it is a resource
};

/// One event, with its own time, so that an engine may deliver late (but in order for each
/// address).
struct AllocationEvent {
    EventKind kind{};
    Tid tid;
    RemoteAddr address;     ///< the new block, or the one that is freed
    std::uint64_t size = 0; ///< bytes that the program asked for
    RemoteAddr old_address; ///< realloc_*, unseen_alloc only
    StackId stack = kNoStack;
    MonotonicNs time;
    AllocatedBy by = AllocatedBy::unclear; ///< alloc, free, realloc_*
    /// free, realloc_begin of a block that is not live: no allocator gives such an address, or none
    /// has so far.
    bool never_allocated = false;
    bool if_live = false; ///< free only: not to be counted unless the block is live
    Unseen unseen = Unseen::generated_code; ///< unseen_alloc only
    std::int64_t age = 0;                   ///< brief only: in ns
};

/// Why a recorded stack has no further frames.
enum class StackEnd : std::uint8_t {
    outermost,      ///< the thread's first function was reached: the stack is whole
    limit,          ///< the backtrace limit was reached
    no_rule,        ///< no unwind table covers the pc, and frame pointers did not help
    bad_memory,     ///< the stack, or what a rule refers to, could not be read
    not_code,       ///< a return address is not in executable memory
    not_increasing, ///< the caller's frame would not be further out: the stack is broken or loops
    bad_rule,       ///< an unwind row could not be evaluated
    vector_length,  ///< the frame's size depends on the length of the CPU's vectors (arm64 SVE)
    unknown_code,   ///< the function was called by code in no mapping that we know, as yet
    copy_end        ///< the stack was walked in a copy of its inner part, which ends here
};

/// A text for reports: "backtrace limit", "no unwind information", ...
const char* describe(StackEnd end);

} // namespace memleax
