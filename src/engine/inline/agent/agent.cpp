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
#include "agent_notes.hpp"
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

/// The call is the tracer's. Where that and its guardian are dead, a trap costs a signal, and rings
/// stay full: it passes.
AGENT_PART Answer trap(const Data& data) {
    const bool is_unattended = load(data.may_pass) != 0 &&
                               load(*reinterpret_cast<const uint8_t*>(load(data.unattended))) != 0;
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
    // What a handler has interrupted it may have left, or its alternate stack may be further out:
    // the tracer can tell.
    if (progress.inside > sp || load(progress.interrupted) != 0) [[unlikely]] {
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
                                   uint64_t return_address, uint64_t pointer) {
    Data& data = data_of(*function);
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
    const auto from = static_cast<arch::ThreadPointerFrom>(load(data.pointer_from));
    const uint64_t pointer = arch::agent_thread_pointer(from);
    const Thread* thread = thread_in(data, thread_slot(pointer), pointer);
    if (thread == nullptr) [[unlikely]] {
        return enter_by_search(function, frame, sp, fp, return_address, pointer);
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
