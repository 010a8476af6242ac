// SPDX-License-Identifier: GPL-3.0-or-later
/// Memory that is mapped, not allocated: what an engine tells of mmap(2), brk(2) and shmat(2).
#pragma once

#include <cstdint>
#include <string_view>

#include "memleax/base/types.hpp"

namespace memleax {

/// What a call stack's memory is. All but `heap` are ranges of addresses.
enum class MemoryKind : std::uint8_t {
    heap,        ///< blocks, from malloc and its kin, and resources
    mmap,        ///< by the program: mmap, mremap
    brk,         ///< by the program: brk, sbrk
    shm,         ///< by the program: shmat
    allocator,   ///< mapped by an allocator, which makes blocks of it: not a leak beside theirs
    thread_stack ///< mapped by pthread_create
};
inline constexpr unsigned kMemoryKinds = 6;

/// "heap", "mmap", "brk", "shm", "allocator", "thread-stack"
const char* describe(MemoryKind kind);

/// Can memory of this kind leak? The others are somebody's stock, and are counted apart.
constexpr bool is_programs_own(MemoryKind kind) {
    return kind != MemoryKind::allocator && kind != MemoryKind::thread_stack;
}

/// What of a process's memory is followed.
struct TrackedMemory {
    bool heap = true;
    bool mmap = false;
    bool brk = false;
    bool shm = false;
    bool faults = false; ///< page faults, of any memory

    [[nodiscard]] bool any_mapped() const { return mmap || brk || shm; }
    /// Which of the pages that faults brought in are still there: that needs what is given back.
    [[nodiscard]] bool still_there() const { return faults && mmap && brk; }
    friend bool operator==(const TrackedMemory&, const TrackedMemory&) = default;
};

/// The functions of the C library that map memory, and one that makes others map it.
enum class MappingCall : std::uint8_t {
    none,
    mmap,
    munmap,
    mremap,
    brk,
    sbrk,
    shmat,
    shmdt,
    madvise,     ///< gives pages back, while what is mapped stays
    thread_start ///< pthread_create: not followed, but what it maps is a stack
};

/// "mmap", ...
const char* describe(MappingCall call);

/// A call has two moments, as with realloc: what it unmaps may be mapped by another thread before
/// it returns, and only its return tells whether it has succeeded.
struct MappingEvent {
    enum class Step : std::uint8_t {
        called,    ///< unmapped[0] and [1] are about to go
        succeeded, ///< they are gone, and unmapped[0] and [1] of this event; `added` is there
        failed     ///< nothing has changed
    };
    Step step{};
    MappingCall call{};
    MemoryKind kind{}; ///< of `added`
    Tid tid;
    AddrRange unmapped[2]; ///< the calls that name two are mremap's; may be empty
    /// shmdt: the attachment that began here; then nothing is in `unmapped`.
    RemoteAddr detached;
    /// Of called: the pages of this range are about to go, and the range stays mapped (madvise, an
    /// mremap that leaves it there); shmdt's attachment.
    AddrRange emptied;
    AddrRange added;          ///< empty: none, or one that is not followed
    StackId stack = kNoStack; ///< of succeeded and failed
    MonotonicNs time;
};

} // namespace memleax
