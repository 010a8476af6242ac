// SPDX-License-Identifier: GPL-3.0-or-later
/// What the agent, our code in the target, and the tracer have in common: the layout of their
/// memory, and the two functions that the stub (arch/*/agent_stub.S) calls.
///
/// The tracer writes a running target's memory a byte at a time, as far as anybody can tell. So
/// what it writes there while the agent may read it is one byte, or is told by a byte that is
/// written afterwards, or is checked against what it leads to (Node).
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent_cpu.hpp"

namespace memleax::agent {

using std::int32_t;
using std::int8_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

inline constexpr uint32_t kNoStackId = 0xffffffff;

/// A frame of a call stack, known by all the frames between it and the allocator's function: a node
/// of a calling-context tree. How to get from it to its caller is a Rule's equations (rule.hpp).
struct Node {
    enum class Kind : uint8_t {
        trap, ///< the tracer walks such stacks
        walk, ///< by the equations
        leaf, ///< the stack ends here
    };
    enum class Base : uint8_t {
        sp,
        fp,
        at_fp,
        plausible_fp ///< the same as fp, where that could be a frame pointer
    };
    enum class FpPlace : uint8_t { unchanged, at_cfa, at_fp };

    uint64_t return_address = 0;
    uint32_t parent = 0; ///< its index
    union {
        uint32_t stack = kNoStackId; ///< leaf
        int32_t ra_offset;           ///< walk: where the caller's return address is
    };
    int32_t cfa_offset = 0;
    int32_t fp_offset = 0;
    uint32_t first_child = 0; ///< most have no other one; 0: none
    Kind kind = Kind::trap;
    Base base = Base::sp;
    FpPlace fp_place = FpPlace::unchanged;
    uint8_t unused = 0;
};
static_assert(sizeof(Node) == 32);

/// The children of a node without tables where the frame pointer is null, or could be none, are
/// leaves with these in the return address's place. No code returns to either.
inline constexpr uint64_t kNoCaller = 0;
inline constexpr uint64_t kNoFrame = 1;

/// Node 0 is none; 1 to kMaxFunctions are the functions themselves, by their numbers.
inline constexpr uint32_t kMaxFunctions = 255;
/// Only those that are used take memory. A compiler's 8,000 call stacks need 100,000.
inline constexpr uint32_t kMaxNodes = 1U << 20;
/// From (parent, return address) to the node, if it is not the first child: a hash table with open
/// addressing.
inline constexpr uint32_t kChildSlots = 1U << 20;
inline constexpr uint32_t kMostProbes = 8;

constexpr uint64_t child_slot(uint64_t parent, uint64_t return_address) {
    const uint64_t mixed = (return_address ^ (parent << 40)) * 0x9e3779b97f4a7c15ULL;
    return (mixed >> 40) % kChildSlots;
}

/// What a thread's walk from one place has read: where these words are the same, and sp, and the
/// frame pointer if that was of use, another walk would end at the same stack. Written by its
/// thread alone.
struct alignas(64) Memo {
    static constexpr uint64_t kWords = 128; ///< a frame's two at most: JavaScript is 40 deep
    static constexpr uint64_t kStep = 4;    ///< so many are compared at a time

    uint64_t epoch = 0; ///< Data::epoch of the walk; 0: there was none
    uint64_t sp = 0;
    uint64_t fp = 0;
    uint64_t return_address = 0; ///< of the call itself
    uint32_t function = 0;
    uint32_t stack = kNoStackId;
    uint32_t candidate = 0; ///< of the last one that was not kept, though this is its place
    uint8_t uses_fp = 0;
    uint8_t decisive = 0; ///< the word that was another one the last time
    uint16_t misses = 0;  ///< of stacks whose place this is, and which were candidates before
    uint32_t count = 0;   ///< filled up with the last one to a multiple of kStep
    uint32_t last = 0;    ///< of its places
    uint32_t places[kWords] = {}; ///< from sp on
    uint64_t words[kWords] = {};
};
inline constexpr uint32_t kMemos = 128; ///< of a thread, at most
/// A stack's memo is one of so many neighbours: stacks that differ further out only, as those of
/// two calls in one function do, have the same place.
inline constexpr uint32_t kMemoWays = 4;

/// What a thread has done, in the order in which it did it.
struct Entry {
    enum class Kind : uint8_t {
        freed,         ///< told before the allocator gets the block: address, and who calls
        inner_free,    ///< the same, in a call of an allocator's own
        allocated,     ///< told after it has given it: address (0: it failed), size, stack
        realloc_began, ///< address is the old block; size, stack. `allocated` of the same thread
                       ///< ends it.
        brief,         ///< `allocated`, and its thread has freed it again before anybody claimed
                       ///< the entry. Nobody else knew of that address in between.
        freed_if_live, ///< `freed`, while the entry of the allocation was being claimed: that one
                       ///< has been read as `allocated`, or as `brief` already
        hidden         ///< with LiveTable: address was given out within a call of an allocator's
    };
    uint64_t ticket = 0; ///< numbers the entries of all threads, without gaps, in an order in which
                         ///< those of one address have happened
    uint64_t address = 0;
    uint64_t size_or_caller = 0;
    uint32_t stack = kNoStackId; ///< with LiveTable also of `freed`
    uint8_t function = 0;
    uint8_t end_tick = 0; ///< brief: when it ended
    Kind kind = Kind::freed;
    uint8_t tick = 0; ///< Data::tick at that time
};
static_assert(sizeof(Entry) == 32);

inline constexpr uint8_t kKinds = 7; ///< of Entry

inline constexpr uint32_t kRingEntries = 8192; ///< at most; a power of two
/// The consumer frees a ring's entries by so many at once: their number modulo 256 is one byte.
inline constexpr uint32_t kRingPart = 128;
static_assert(kRingEntries / kRingPart <
              128); // two places in a ring are compared by their parts, modulo 256
/// Each call that is let through needs at most two; those within it, and those of handlers that
/// interrupt it before it is noted as begun, leave it that.
inline constexpr uint32_t kLeastRoom = 16;

/// A thread of the target's, as the tracer has it. Written mostly while the thread is stopped.
struct alignas(64) Thread {
    uint64_t pointer = 0; ///< the thread pointer; 0: unused
    uint64_t stack_begin = 0;
    uint64_t stack_end = 0; ///< of the memory that its stack lies in
    int32_t tid = 0;        ///< 0: no thread has ever been here, nor in those behind
    uint8_t ready = 0;
    uint8_t trap = 0;        ///< every call is the tracer's
    uint8_t freed_parts = 0; ///< of the ring, modulo 256
    /// Entries of the parts before this one (modulo 256) may have been read, and are not changed.
    uint8_t claimed_parts = 0;
    uint64_t ring = 0;      ///< where its entries are
    uint64_t memos = 0;     ///< and its memos
    uint8_t ring_parts = 0; ///< how many; a power of two, like the next one
    uint8_t memo_count = 0;
    uint8_t unused[14] = {};
};
static_assert(sizeof(Thread) == 64);

/// Why a call traps, where the tracer would not find that out by itself.
enum class Trap : uint8_t {
    other,
    no_room, ///< in its ring
    not_live ///< it frees what is not in LiveTable, or not as what it is
};

/// The same thread, as it writes itself; what the tracer writes here it takes back.
struct alignas(64) Progress {
    uint64_t head = 0; ///< entries that it has ever written
    /// The stack pointer at the entry of the call, to the allocator, that it is inside of; 0: none.
    uint64_t inside = 0;
    uint64_t calls = 0;                 ///< that needed no trap
    uint32_t forced_stack = kNoStackId; ///< of the next call, which need not be walked
    uint8_t interrupted = 0;            ///< a signal was delivered in the call that it is inside of
    uint8_t has_failed = 0;             ///< a nothrow twin has; the tracer takes it back
    uint8_t uses_memo = 0;
    Trap why = Trap::other; ///< did it trap, the last time
    uint64_t room_end = 0;  ///< `head` may be below this, by what has been seen of freed_parts
    uint8_t unused[16] = {};
};
static_assert(sizeof(Progress) == 64);

/// At once; calls of others trap. The first ones have all that a thread can make use of, the others
/// less, and that is mapped for so many of them at once when the first of these comes.
inline constexpr uint32_t kMaxThreads = 4096;
inline constexpr uint32_t kWideThreads = 128;
inline constexpr uint32_t kNarrowThreads = 128;
inline constexpr uint32_t kNarrowRingEntries = 1024;
inline constexpr uint32_t kNarrowMemos = 16;
inline constexpr uint32_t kThreadSlots = 16384;

constexpr uint32_t thread_slot(uint64_t pointer) {
    return static_cast<uint32_t>((pointer * 0x9e3779b97f4a7c15ULL) >> 48) % kThreadSlots;
}

inline constexpr uint16_t kNoThread = 0xffff;

/// Of a block that was allocated lately: where the entry is that says so. What it leads to decides
/// whether it is true. Whoever frees the block finds it here, or finds nothing; who is not the one
/// that has allocated it takes it away. So it never outlives its block, although the accesses of
/// different blocks overwrite each other: those of one block are ordered by what hands it over.
struct Young {
    static constexpr uint32_t kSlots = 2048;

    /// Neighbours are in one cache line: blocks of different threads mostly are in different ones.
    static constexpr uint32_t slot(uint64_t address) {
        const uint64_t far = (address >> 15) * 0x9e3779b97f4a7c15ULL;
        return static_cast<uint32_t>((address >> 4) ^ (far >> 50 << 3)) % kSlots;
    }
    static constexpr uint64_t key(uint64_t address, uint32_t thread) {
        static_assert(kMaxThreads <= 1U << 12);
        return (address * 0x9e3779b97f4a7c15ULL) >> 44 << 44 | uint64_t{thread} << 32;
    }
    static constexpr uint64_t kAddressBits = 0xfffff00000000000;
    static constexpr uint64_t kPlaceBits = 0xffffffff; ///< Thread::head, the lower half
};

/// With --check: the blocks that the agent has told of as allocated, and not as ended. A free of
/// any other traps, so that an error is told of before the allocator hears of it. Blocks may be
/// missing, where there was no room; none is here too many. Each is in its bucket, as key().
struct LiveTable {
    static constexpr uint32_t kBuckets = 1U << 18;
    static constexpr uint32_t kWays = 8;
    static constexpr uint32_t kAnyKind = 0; ///< AllocatedBy::unclear

    /// Neighbours share one, a cache line, which has room for the smallest blocks.
    static constexpr uint32_t bucket(uint64_t address) {
        const uint64_t far = (address >> 25) * 0x9e3779b97f4a7c15ULL;
        return static_cast<uint32_t>((address >> 7) ^ (far >> 40)) % kBuckets;
    }
    /// Its first byte is the highest one of a key; with 0 there, the place is free. So the tracer
    /// takes a block away by writing one byte.
    static constexpr uint64_t key(uint64_t address, uint8_t allocated_by) {
        return (address & kAddressBits) | (uint64_t{allocated_by} + 1) << kKindShift;
    }
    static constexpr uint32_t kKindShift = 56;
    static constexpr uint64_t kAddressBits = (uint64_t{1} << kKindShift) - 1;

    alignas(64) uint64_t slots[kBuckets][kWays];
};

inline constexpr uint64_t kLargestPage = 65536; ///< arm64 kernels may have such

/// What threads that follow each other have; whole pages.
struct WideThreads {
    static constexpr uint32_t kThreads = 8;
    Memo memos[kThreads][kMemos];
    Entry rings[kThreads][kRingEntries];
};
static_assert(sizeof(WideThreads) % kLargestPage == 0 && kWideThreads % WideThreads::kThreads == 0);

/// All of it is private to the target, anonymous, and MADV_WIPEONFORK: a forked child, which nobody
/// watches yet, finds zeros, and so a disabled agent. The kernel counts what is writable as
/// promised (CommitLimit in proc(5)), once more for each forked child, also if it is never touched;
/// so that is little.
struct Data {
    // What leads the agent: written by the tracer, which may, and read-only to the target. So
    // nothing that a target does to the rest can lead the agent out of its stack and of this.
    uint8_t enabled = 0;
    uint8_t tick = 0;         ///< goes on every few milliseconds
    uint8_t pointer_from = 0; ///< arch::ThreadPointerFrom, of all threads
    /// Is what `unattended` leads to to be asked? Cleared while threads run, who may be about to
    /// use the pointer: so that stays.
    uint8_t may_pass = 0;
    /// Goes on when stacks are taken out of the tree. Its low byte is never 0 while it is one.
    uint32_t epoch = 0;
    uint64_t live = 0; ///< where the LiveTable is; 0: there is none
    /// Where a byte says that nobody is left to trap for, once it is not 0 (arch::kUnattendedAt).
    /// Written before `may_pass`, and never again.
    uint64_t unattended = 0;
    Thread threads[kMaxThreads];
    uint16_t thread_slots[kThreadSlots]; ///< by thread_slot(): its index + 1; 0: none,
                                         ///< kNoThread: none any more
    Node nodes[kMaxNodes];
    uint32_t children[kChildSlots]; ///< by child_slot(): the node's index; 0: none

    // What the agent writes.
    alignas(kLargestPage) uint64_t next_ticket = 0;
    Progress progress[kMaxThreads];
    /// By Young::slot(): Young::key(), and the entry's place.
    alignas(64) uint64_t young[Young::kSlots];
    // The first threads', by their indices. The first piece is writable from the beginning, each
    // other one when a thread that has its share in it comes. Only what is used takes memory.
    alignas(kLargestPage) WideThreads wide[kWideThreads / WideThreads::kThreads];
};

/// The same of others.
struct NarrowThreads {
    Memo memos[kNarrowThreads][kNarrowMemos];
    Entry rings[kNarrowThreads][kNarrowRingEntries];
};
inline constexpr uint32_t kMostNarrow = (kMaxThreads - kWideThreads) / kNarrowThreads;
static_assert(kWideThreads + kMostNarrow * kNarrowThreads == kMaxThreads);

/// A function that begins with a jump to the agent.
struct Function {
    enum class Kind : uint8_t { free, allocate, reallocate };
    uint64_t data = 0;     ///< Data's address in the target
    uint64_t original = 0; ///< where its first instructions are; behind them, it goes on
    uint64_t trap = 0;     ///< the way out by which the call is the tracer's
    uint8_t number = 0;
    uint8_t allocated_by = 0; ///< what it begins, or ends, for LiveTable
    Kind kind = Kind::free;
    // Arguments, from 0; -1: none.
    int8_t pointer_argument = -1;
    int8_t size_argument = -1;
    int8_t count_argument = -1;
    int8_t out_argument = -1; ///< where the block's address is stored, if the result is an int of 0
    /// An operator new that throws has no frame of the agent's on its stack, as foreign unwinders
    /// could not get past it. Its nothrow twin is called in its place, and where that gives null,
    /// the call is the tracer's.
    int8_t nothrow_argument = -1; ///< the twin's std::nothrow_t
    uint64_t called = 0;          ///< `original`, or the twin
    uint64_t pass = 0;            ///< the way out to `original`
};
static_assert(sizeof(Function) == 48);
static_assert(offsetof(Function, trap) == 16 && offsetof(Function, called) == 32 &&
              offsetof(Function, pass) == 40); // the stub's

/// What is done when the function has returned.
enum class Ending : uint32_t {
    allocation, ///< told: what it has returned
    hidden,     ///< the same, of a call within another one of an allocator's
    free        ///< nothing is left to tell: the stub ends the call
};

/// The stub's frame: the registers as at the function's entry, and what its return needs.
struct Frame {
    Progress* progress;
    const Function* function;
    uint64_t size;
    uint32_t stack;
    Ending ending;
    arch::AgentRegisters registers;
};
static_assert(offsetof(Frame, progress) == 0 && offsetof(Frame, ending) == 28 &&
              offsetof(Frame, registers) == 32); // the stub's
static_assert(offsetof(Progress, inside) == 8 && offsetof(Progress, interrupted) == 28 &&
              static_cast<uint32_t>(Ending::free) == 2);

enum class Answer : uint32_t { trap, pass, call };

extern "C" {
/// A call of the function begins. `sp` is the stack pointer at its entry, `fp` its caller's frame
/// pointer.
Answer memleax_agent_enter(const Function* function, Frame* frame, uint64_t sp, uint64_t fp,
                           uint64_t return_address);
/// And has returned `result`, if its ending is not `free`. False: it was a twin that has failed,
/// and the call is to trap.
bool memleax_agent_leave(Frame* frame, uint64_t result);
}

} // namespace memleax::agent
