// SPDX-License-Identifier: GPL-3.0-or-later
// Executed in the target, in place of each watched call: no library, no thread-local variable, no
// lock, no system call, no memory but what is ours, between sp and the stack's end the stack, and
// where posix_memalign has just stored its result.
// It is right for what it accepts only; everything else traps, and is the tracer's.
//
// What another thread, or the tracer, is to see in an order is stored with release and loaded with
// acquire, and where a store is to be seen before a load, by a read-modify-write before a load that
// is sequentially consistent (arm64: stlxr before ldar; x86_64: any locked instruction).
#include "agent.hpp"
#include "agent_cpu.hpp"
#include "agent_walk.hpp"

#define AGENT __attribute__((section("memleax_agent")))

// NOLINTBEGIN(performance-no-int-to-ptr): addresses are what it is about.
namespace memleax::agent {

namespace {

AGENT_PART uint64_t& argument(Frame& frame, int8_t n) {
    return arch::agent_argument(frame.registers, n);
}

/// The thread in a slot, if it is the one with this pointer.
AGENT_PART const Thread* thread_in(const Data& data, uint64_t slot, uint64_t pointer) {
    const uint64_t number = load(data.thread_slots[slot]);
    if (number == 0 || number > kMaxThreads) [[unlikely]] {
        return nullptr;
    }
    const Thread& thread = data.threads[number - 1];
    return load(thread.pointer) == pointer ? &thread : nullptr;
}

AGENT_PART Progress& progress_of(Data& data, const Thread& thread) {
    static_assert(sizeof(Progress) == sizeof(Thread));
    const uint64_t place =
        reinterpret_cast<uint64_t>(&thread) - reinterpret_cast<uint64_t>(data.threads);
    return *reinterpret_cast<Progress*>(reinterpret_cast<uint64_t>(data.progress) + place);
}
AGENT_PART const Thread& thread_of(const Data& data, const Progress& progress) {
    const uint64_t place =
        reinterpret_cast<uint64_t>(&progress) - reinterpret_cast<uint64_t>(data.progress);
    return *reinterpret_cast<const Thread*>(reinterpret_cast<uint64_t>(data.threads) + place);
}

/// The reader's progress is looked at when what was seen of it is used up.
AGENT_PART bool has_room(const Thread& thread, Progress& progress) {
    if (progress.head < progress.room_end) [[likely]] {
        return true;
    }
    const uint64_t part = progress.head / kRingPart;
    // Of 256 parts, no more than the ring has are in use.
    const auto used_parts = static_cast<uint8_t>(part - load(thread.freed_parts));
    const uint64_t free_parts = uint64_t{thread.ring_parts} - used_parts;
    progress.room_end = (part + free_parts) * kRingPart - kLeastRoom;
    return progress.head < progress.room_end;
}

/// A thread's entries. The least significant bits of a place say where its entry is.
struct Ring {
    Entry* entries;
    uint64_t last; ///< a power of two, less one
    AGENT_PART Ring of(const Thread& thread) {
        return {reinterpret_cast<Entry*>(thread.ring), uint64_t{thread.ring_parts} * kRingPart - 1};
    }
    [[nodiscard]] __attribute__((always_inline)) Entry& at(uint64_t place) const {
        return entries[place & last];
    }
};

/// When so many more have been written, an entry's cache line has come from the reader's CPU.
constexpr uint64_t kSoon = 32;

AGENT_PART void record(Data& data, const Thread& thread, Progress& progress, Entry::Kind kind,
                       uint8_t function, uint64_t address, uint64_t size_or_caller,
                       uint32_t stack) {
    const Ring ring = Ring::of(thread);
    const uint64_t place = progress.head;
    Entry& entry = ring.at(place);
    entry.address = address;
    entry.size_or_caller = size_or_caller;
    entry.stack = stack;
    entry.function = function;
    entry.kind = kind;
    entry.tick = load(data.tick);
    // Acquires and releases: what the allocator did before an allocation's entry, it did before its
    // number; what it does after a free's, it does after that one's.
    entry.ticket = __atomic_fetch_add(&data.next_ticket, 1, __ATOMIC_SEQ_CST);
    store(progress.head, place + 1);
    arch::agent_will_write(&ring.at(place + 1 + kSoon));
}

AGENT_PART uint32_t index_of(const Data& data, const Progress& progress) {
    return static_cast<uint32_t>(&progress - data.progress);
}

/// The entry that was recorded last is the allocation of this block.
AGENT_PART void remember_young(Data& data, const Progress& progress, uint64_t address) {
    const uint64_t place = (progress.head - 1) & Young::kPlaceBits;
    store(data.young[Young::slot(address)], Young::key(address, index_of(data, progress)) | place);
}

/// The block ends, and that is told by an entry of its own.
AGENT_PART void forget_young(Data& data, uint64_t address) {
    uint64_t& slot = data.young[Young::slot(address)];
    if (((load(slot) ^ Young::key(address, 0)) & Young::kAddressBits) == 0) {
        store(slot, uint64_t{0});
    }
}

AGENT_PART bool is_claimed(const Thread& thread, uint32_t place) {
    const uint8_t claimed = __atomic_load_n(&thread.claimed_parts, __ATOMIC_SEQ_CST);
    const auto parts = static_cast<uint8_t>(place / kRingPart - claimed);
    return parts >= 128;
}

enum class Freed : uint8_t {
    not_here, ///< to be recorded
    here,
    unclear ///< here, or nowhere
};

/// The block is freed. If it is this thread's, and nobody has read of it, that is noted where it
/// was allocated.
AGENT_PART Freed free_young(Data& data, const Thread& thread, const Progress& progress,
                            uint64_t address) {
    uint64_t& slot = data.young[Young::slot(address)];
    const uint64_t young = load(slot);
    const uint32_t index = index_of(data, progress);
    const uint64_t key = Young::key(address, index);
    if (((young ^ key) & Young::kAddressBits) != 0) {
        return Freed::not_here;
    }
    store(slot, uint64_t{0});
    const auto place = static_cast<uint32_t>(young);
    const uint32_t age = static_cast<uint32_t>(progress.head) - place;
    const Ring ring = Ring::of(thread);
    Entry& entry = ring.at(place);
    if ((young & ~Young::kPlaceBits) != key || age == 0 || age > ring.last + 1 ||
        is_claimed(thread, place) || entry.address != address ||
        entry.kind != Entry::Kind::allocated) {
        return Freed::not_here;
    }
    entry.end_tick = load(data.tick);
    // The reader claims, and then reads; here it is changed, and then looked whether it is claimed.
    // One of the two sees what the other one did.
    Entry::Kind brief = Entry::Kind::brief;
    Entry::Kind before{};
    __atomic_exchange(&entry.kind, &brief, &before, __ATOMIC_SEQ_CST);
    return is_claimed(thread, place) ? Freed::unclear : Freed::here;
}

AGENT_PART uint64_t* live_bucket(const Data& data, uint64_t address) {
    return reinterpret_cast<LiveTable*>(data.live)->slots[LiveTable::bucket(address)];
}

AGENT_PART bool is_block(uint64_t key, uint64_t address) {
    return ((key ^ address) & LiveTable::kAddressBits) == 0 && key >> LiveTable::kKindShift != 0;
}

/// The block begins. It may take the place of another one, or find none.
AGENT_PART void add_live(const Data& data, uint64_t address, uint8_t allocated_by) {
    uint64_t* const bucket = live_bucket(data, address);
    uint64_t place = (address >> 4) % LiveTable::kWays;
    for (uint64_t i = 0; i < LiveTable::kWays; ++i) {
        const uint64_t key = load(bucket[i]);
        if (is_block(key, address)) { // its end was not seen
            place = i;
            break;
        }
        if (key >> LiveTable::kKindShift == 0) {
            place = i;
        }
    }
    store(bucket[place], LiveTable::key(address, allocated_by));
}

/// A block ends by this kind of function; false if it is not known that it may.
AGENT_PART bool take_live(const Data& data, uint64_t address, uint8_t ended_by) {
    uint64_t* const bucket = live_bucket(data, address);
    for (uint64_t i = 0; i < LiveTable::kWays; ++i) {
        uint64_t key = load(bucket[i]);
        const uint64_t by = (key >> LiveTable::kKindShift) - 1;
        if (is_block(key, address)) {
            const bool may_end =
                by == ended_by || by == LiveTable::kAnyKind || ended_by == LiveTable::kAnyKind;
            return may_end && __atomic_compare_exchange_n(&bucket[i], &key, uint64_t{0}, false,
                                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        }
    }
    return false;
}

/// The call is the tracer's. Where that and its guardian are dead, a trap costs a signal, and rings
/// stay full: it passes.
AGENT_PART Answer trap(const Data& data) {
    const bool is_unattended =
        data.unattended != 0 && load(*reinterpret_cast<const uint8_t*>(data.unattended)) != 0;
    return is_unattended ? Answer::pass : Answer::trap;
}
AGENT_PART Answer trap(const Data& data, Progress& progress, Trap why) {
    progress.why = why;
    return trap(data);
}

AGENT_PART uint64_t requested_size(const Function& function, Frame& frame) {
    const uint64_t size = argument(frame, function.size_argument);
    uint64_t product = 0;
    if (function.count_argument < 0) [[likely]] {
        return size;
    }
    return __builtin_mul_overflow(size, argument(frame, function.count_argument), &product)
               ? ~uint64_t{0}
               : product;
}

AGENT_PART Data& data_of(const Function& function) {
    return *reinterpret_cast<Data*>(function.data);
}

// What follows are functions of their own, called last: each keeps in registers what it needs, and
// saves none that it does not.

/// A call within another one of an allocator's.
AGENT_APART Answer enter_within(const Function& function, Frame& frame, const Thread& thread) {
    Data& data = data_of(function);
    Progress& progress = *frame.progress;
    const bool checks = data.live != 0;
    const uint64_t pointer =
        function.kind == Function::Kind::allocate ? 0 : argument(frame, function.pointer_argument);
    if (load(progress.interrupted) != 0 ||
        (function.kind == Function::Kind::reallocate && pointer != 0)) {
        return trap(data, progress, Trap::other);
    }
    if (pointer != 0) {
        forget_young(data, pointer);
        if (checks) {
            take_live(data, pointer, LiveTable::kAnyKind);
        }
        record(data, thread, progress, Entry::Kind::inner_free, function.number, pointer, 0,
               kNoStackId);
        return Answer::pass;
    }
    // What an allocator takes for itself is to be known for none that was freed.
    frame.ending = Ending::hidden;
    return checks && function.kind != Function::Kind::free && function.called == function.original
               ? Answer::call
               : Answer::pass;
}

/// Tells of a block's end before the allocator gets it.
AGENT_PART void tell_free(const Function& function, const Thread& thread, Progress& progress,
                          uint64_t pointer, uint64_t return_address, uint32_t stack) {
    Data& data = data_of(function);
    const Freed freed = free_young(data, thread, progress, pointer);
    if (freed != Freed::here) {
        record(data, thread, progress,
               freed == Freed::unclear ? Entry::Kind::freed_if_live : Entry::Kind::freed,
               function.number, pointer, arch::agent_stripped(return_address), stack);
    }
}

/// A call that no other one of an allocator's makes. The usual kinds have functions of their own,
/// in which `kind` and `checks` are known.
AGENT_PART Answer enter_outermost(const Function& function, Frame& frame, uint64_t sp, uint64_t fp,
                                  uint64_t return_address, const Thread& thread,
                                  Function::Kind kind, bool checks) {
    Data& data = data_of(function);
    Progress& progress = *frame.progress;
    const bool frees = kind == Function::Kind::free;
    const uint64_t pointer =
        kind == Function::Kind::allocate ? 0 : argument(frame, function.pointer_argument);
    if (frees && pointer == 0) {
        return Answer::pass;
    }
    if (!frees) {
        frame.size = requested_size(function, frame);
        if (kind == Function::Kind::reallocate && frame.size == 0) {
            return trap(data, progress, Trap::other); // may free, or not
        }
    }
    if (!frees || checks) {
        if (frame.stack == kNoStackId) [[likely]] { // nobody has forced one
            frame.stack =
                call_stack(data, thread, progress,
                           Call{function.number, {sp, thread.stack_end}, fp, return_address});
        }
        if (frame.stack == kNoStackId) [[unlikely]] {
            return trap(data, progress, Trap::other);
        }
    }
    if (checks && pointer != 0 && !take_live(data, pointer, function.allocated_by)) {
        return trap(data, progress, Trap::not_live);
    }
    if (kind == Function::Kind::allocate && function.nothrow_argument >= 0) [[unlikely]] {
        // An object of an empty class is told by its address only, which is any.
        argument(frame, function.nothrow_argument) = reinterpret_cast<uint64_t>(&function);
    }
    // Until now a signal's handler may have made calls as any other; what is recorded from here on
    // must not be interrupted by them, and they trap.
    ++progress.calls;
    progress.interrupted = 0; // of a call that was left by siglongjmp, if at all
    store(progress.inside, sp);
    if (frees) {
        frame.ending = Ending::free;
        tell_free(function, thread, progress, pointer, return_address,
                  checks ? frame.stack : kNoStackId);
    } else if (pointer != 0) {
        forget_young(data, pointer);
        record(data, thread, progress, Entry::Kind::realloc_began, function.number, pointer,
               frame.size, frame.stack);
    }
    return Answer::call;
}

AGENT_APART Answer enter_free(const Function& function, Frame& frame, uint64_t sp, uint64_t fp,
                              uint64_t return_address, const Thread& thread) {
    return enter_outermost(function, frame, sp, fp, return_address, thread, Function::Kind::free,
                           false);
}
AGENT_APART Answer enter_allocation(const Function& function, Frame& frame, uint64_t sp,
                                    uint64_t fp, uint64_t return_address, const Thread& thread) {
    return enter_outermost(function, frame, sp, fp, return_address, thread,
                           Function::Kind::allocate, false);
}
AGENT_APART Answer enter_any(const Function& function, Frame& frame, uint64_t sp, uint64_t fp,
                             uint64_t return_address, const Thread& thread) {
    return enter_outermost(function, frame, sp, fp, return_address, thread, function.kind,
                           data_of(function).live != 0);
}

/// A call of this thread.
AGENT_PART Answer enter(const Function* function, Frame* frame, uint64_t sp, uint64_t fp,
                        uint64_t return_address, const Thread& thread) {
    Data& data = data_of(*function);
    if (load(thread.ready) == 0) [[unlikely]] {
        return trap(data);
    }
    Progress& progress = progress_of(data, thread);
    if (load(thread.trap) != 0 || sp < thread.stack_begin || sp >= thread.stack_end) [[unlikely]] {
        return trap(data, progress, Trap::other);
    }
    if (!has_room(thread, progress)) [[unlikely]] {
        return trap(data, progress, Trap::no_room);
    }
    // Of this call, whatever becomes of it: the next one has another.
    frame->stack = progress.forced_stack;
    if (frame->stack != kNoStackId) [[unlikely]] {
        progress.forced_stack = kNoStackId;
    }
    frame->progress = &progress;
    frame->function = function;
    frame->ending = Ending::allocation;
    if (progress.inside > sp) [[unlikely]] {
        return enter_within(*function, *frame, thread);
    }
    if (data.live == 0 && function->kind == Function::Kind::allocate) {
        return enter_allocation(*function, *frame, sp, fp, return_address, thread);
    }
    if (data.live == 0 && function->kind == Function::Kind::free) {
        return enter_free(*function, *frame, sp, fp, return_address, thread);
    }
    return enter_any(*function, *frame, sp, fp, return_address, thread);
}

/// A call of a thread that is not in its first slot.
AGENT_APART Answer enter_by_search(const Function* function, Frame* frame, uint64_t sp, uint64_t fp,
                                   uint64_t return_address) {
    Data& data = data_of(*function);
    const uint64_t pointer = arch::agent_thread_pointer();
    uint64_t slot = thread_slot(pointer);
    for (uint32_t i = 0; i < kMostProbes && load(data.thread_slots[slot]) != 0; ++i) {
        if (const Thread* thread = thread_in(data, slot, pointer)) {
            return enter(function, frame, sp, fp, return_address, *thread);
        }
        slot = (slot + 1) % kThreadSlots;
    }
    return trap(data);
}

} // namespace

extern "C" {

AGENT Answer memleax_agent_enter(const Function* function, Frame* frame, uint64_t sp, uint64_t fp,
                                 uint64_t return_address) {
    const Data& data = data_of(*function);
    if (load(data.enabled) == 0) [[unlikely]] {
        return Answer::pass;
    }
    const uint64_t pointer = arch::agent_thread_pointer();
    const Thread* thread = thread_in(data, thread_slot(pointer), pointer);
    if (thread == nullptr) [[unlikely]] {
        return enter_by_search(function, frame, sp, fp, return_address);
    }
    return enter(function, frame, sp, fp, return_address, *thread);
}

AGENT bool memleax_agent_leave(Frame* frame, uint64_t result) {
    const Function& function = *frame->function;
    uint64_t block = result;
    if (function.out_argument >= 0) [[unlikely]] {
        block = static_cast<uint32_t>(result) == 0
                    ? *reinterpret_cast<const uint64_t*>(argument(*frame, function.out_argument))
                    : 0;
    }
    Data& data = data_of(function);
    Progress& progress = *frame->progress;
    const Thread& thread = thread_of(data, progress);
    if (frame->ending == Ending::hidden) [[unlikely]] {
        if (load(data.enabled) != 0 && block != 0) {
            record(data, thread, progress, Entry::Kind::hidden, function.number, block, 0,
                   kNoStackId);
        }
        return true;
    }
    const bool has_failed = block == 0 && function.called != function.original;
    // In a forked child all is zero here, and in a target that is being left nobody will read it.
    if (load(data.enabled) != 0 && !has_failed) [[likely]] {
        record(data, thread, progress, Entry::Kind::allocated, function.number, block, frame->size,
               frame->stack);
        if (block != 0 && data.live != 0) [[unlikely]] {
            add_live(data, block, function.allocated_by);
        } else if (block != 0 && function.kind == Function::Kind::allocate) {
            remember_young(data, progress, block);
        }
    }
    store(progress.has_failed, uint8_t{has_failed});
    store(progress.inside, uint64_t{0});
    store(progress.interrupted, uint8_t{0});
    return !has_failed;
}

} // extern "C"

} // namespace memleax::agent
// NOLINTEND(performance-no-int-to-ptr)
