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

AGENT_PART const Thread* find_thread(const Data& data) {
    const uint64_t pointer = arch::agent_thread_pointer();
    for (uint32_t i = 0; i < kMostProbes; ++i) {
        const uint32_t index = load(data.thread_slots[(thread_slot(pointer) + i) % kThreadSlots]);
        if (index == 0) {
            return nullptr;
        }
        if (index > kMaxThreads) {
            continue;
        }
        const Thread& thread = data.threads[index - 1];
        if (load(thread.pointer) == pointer) {
            return load(thread.ready) != 0 ? &thread : nullptr;
        }
    }
    return nullptr;
}

AGENT_PART bool has_room(const Thread& thread, const Progress& progress) {
    // Of 256 parts, fewer than kRingParts are in use.
    const auto used_parts =
        static_cast<uint8_t>(progress.head / kRingPart - load(thread.freed_parts));
    const auto last = static_cast<uint8_t>(thread.ring_parts - 1);
    return used_parts < last ||
           (used_parts == last && progress.head % kRingPart + kLeastRoom < kRingPart);
}

AGENT_PART Entry& entry_at(const Thread& thread, uint64_t place) {
    const uint64_t last = uint64_t{thread.ring_parts} * kRingPart - 1;
    return reinterpret_cast<Entry*>(thread.ring)[place & last];
}

/// So many entries later is another cache line.
constexpr uint64_t kSoon = 4;

AGENT_PART void record(Data& data, const Thread& thread, Progress& progress, Entry::Kind kind,
                       uint8_t function, uint64_t address, uint64_t size_or_caller,
                       uint32_t stack) {
    Entry& entry = entry_at(thread, progress.head);
    entry.address = address;
    entry.size_or_caller = size_or_caller;
    entry.stack = stack;
    entry.function = function;
    entry.kind = kind;
    entry.tick = load(data.tick);
    // Acquires and releases: what the allocator did before an allocation's entry, it did before its
    // number; what it does after a free's, it does after that one's.
    entry.ticket = __atomic_fetch_add(&data.next_ticket, 1, __ATOMIC_SEQ_CST);
    store(progress.head, progress.head + 1);
    arch::agent_will_write(&entry_at(thread, progress.head + kSoon));
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
AGENT_PART Freed free_young(Data& data, const Progress& progress, uint64_t address) {
    uint64_t& slot = data.young[Young::slot(address)];
    const uint64_t young = load(slot);
    const uint32_t index = index_of(data, progress);
    const uint64_t key = Young::key(address, index);
    if (((young ^ key) & Young::kAddressBits) != 0) {
        return Freed::not_here;
    }
    store(slot, uint64_t{0});
    const Thread& thread = data.threads[index];
    const auto place = static_cast<uint32_t>(young);
    const uint32_t age = static_cast<uint32_t>(progress.head) - place;
    Entry& entry = entry_at(thread, place);
    if ((young & ~Young::kPlaceBits) != key || age == 0 ||
        age > uint32_t{thread.ring_parts} * kRingPart || is_claimed(thread, place) ||
        entry.address != address || entry.kind != Entry::Kind::allocated) {
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
    if (function.count_argument < 0) {
        return size;
    }
    return __builtin_mul_overflow(size, argument(frame, function.count_argument), &product)
               ? ~uint64_t{0}
               : product;
}

} // namespace

extern "C" {

AGENT Answer memleax_agent_enter(const Function* function, Frame* frame, uint64_t sp, uint64_t fp,
                                 uint64_t return_address) {
    Data& data = *reinterpret_cast<Data*>(function->data);
    if (load(data.enabled) == 0) {
        return Answer::pass;
    }
    const Thread* thread = find_thread(data);
    if (thread == nullptr) {
        return trap(data);
    }
    Progress& progress = data.progress[thread - data.threads];
    if (load(thread->trap) != 0 || sp < thread->stack_begin || sp >= thread->stack_end) {
        return trap(data, progress, Trap::other);
    }
    if (!has_room(*thread, progress)) {
        return trap(data, progress, Trap::no_room);
    }
    // Of this call, whatever becomes of it: the next one has another.
    const uint32_t forced_stack = progress.forced_stack;
    if (forced_stack != kNoStackId) {
        progress.forced_stack = kNoStackId;
    }
    const bool checks = data.live != 0;
    const bool has_pointer = function->kind != Function::Kind::allocate;
    const uint64_t pointer = has_pointer ? argument(*frame, function->pointer_argument) : 0;
    if (progress.inside > sp) {
        if (load(progress.interrupted) != 0 ||
            (function->kind == Function::Kind::reallocate && pointer != 0)) {
            return trap(data, progress, Trap::other);
        }
        if (pointer != 0) {
            forget_young(data, pointer);
            if (checks) {
                take_live(data, pointer, LiveTable::kAnyKind);
            }
            record(data, *thread, progress, Entry::Kind::inner_free, function->number, pointer, 0,
                   kNoStackId);
            return Answer::pass;
        }
        // What an allocator takes for itself is to be known for none that was freed.
        frame->progress = &progress;
        frame->function = function;
        frame->is_inside = 1;
        return checks && function->kind != Function::Kind::free &&
                       function->called == function->original
                   ? Answer::call
                   : Answer::pass;
    }
    frame->progress = &progress;
    frame->function = function;
    frame->size = 0;
    frame->stack = kNoStackId;
    frame->is_inside = 0;
    const bool frees = function->kind == Function::Kind::free;
    if (frees && pointer == 0) {
        return Answer::pass;
    }
    if (!frees) {
        frame->size = requested_size(*function, *frame);
        if (function->kind == Function::Kind::reallocate && frame->size == 0) {
            return trap(data, progress, Trap::other); // may free, or not
        }
    }
    if (!frees || checks) {
        frame->stack = forced_stack;
        if (frame->stack == kNoStackId) {
            frame->stack =
                call_stack(data, *thread, progress,
                           Call{function->number, {sp, thread->stack_end}, fp, return_address});
        }
        if (frame->stack == kNoStackId) {
            return trap(data, progress, Trap::other);
        }
    }
    if (checks && pointer != 0 && !take_live(data, pointer, function->allocated_by)) {
        return trap(data, progress, Trap::not_live);
    }
    if (function->nothrow_argument >= 0) {
        // An object of an empty class is told by its address only, which is any.
        argument(*frame, function->nothrow_argument) = reinterpret_cast<uint64_t>(function);
    }
    // Until now a signal's handler may have made calls as any other; what is recorded from here on
    // must not be interrupted by them, and they trap.
    ++progress.calls;
    progress.interrupted = 0; // of a call that was left by siglongjmp, if at all
    store(progress.inside, sp);
    if (frees) {
        const Freed freed = free_young(data, progress, pointer);
        if (freed != Freed::here) {
            record(data, *thread, progress,
                   freed == Freed::unclear ? Entry::Kind::freed_if_live : Entry::Kind::freed,
                   function->number, pointer, arch::agent_stripped(return_address), frame->stack);
        }
    } else if (pointer != 0) {
        forget_young(data, pointer);
        record(data, *thread, progress, Entry::Kind::realloc_began, function->number, pointer,
               frame->size, frame->stack);
    }
    return Answer::call;
}

AGENT bool memleax_agent_leave(Frame* frame, uint64_t result) {
    const Function& function = *frame->function;
    uint64_t block = result;
    if (function.out_argument >= 0) {
        block = static_cast<uint32_t>(result) == 0
                    ? *reinterpret_cast<const uint64_t*>(argument(*frame, function.out_argument))
                    : 0;
    }
    Data& data = *reinterpret_cast<Data*>(function.data);
    Progress& progress = *frame->progress;
    const Thread& thread = data.threads[index_of(data, progress)];
    if (frame->is_inside != 0) {
        if (load(data.enabled) != 0 && block != 0) {
            record(data, thread, progress, Entry::Kind::hidden, function.number, block, 0,
                   kNoStackId);
        }
        return true;
    }
    const bool has_failed = block == 0 && function.called != function.original;
    // In a forked child all is zero here, and in a target that is being left nobody will read it.
    if (load(data.enabled) != 0 && function.kind != Function::Kind::free && !has_failed) {
        record(data, thread, progress, Entry::Kind::allocated, function.number, block, frame->size,
               frame->stack);
        if (block != 0 && data.live != 0) {
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
