// SPDX-License-Identifier: GPL-3.0-or-later
/// From hits of breakpoints to events of mapped memory.
#pragma once

#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "return_watch.hpp"

namespace memleax {

/// Follows every thread's calls of mmap(2) and its kin. Each is followed to its return, which alone
/// tells whether anything has changed. Calls within each other (sbrk calling brk, an interposer's
/// mmap the real one) count as the outermost.
class MappingCalls {
  public:
    /// All references must outlive it.
    MappingCalls(Target& target, const ModuleMap& modules, Unwinder& unwinder, ReturnWatch& returns,
                 EventSink& sink, const TrackedMemory& tracked, unsigned backtrace_limit);

    /// A function that maps memory, or on whose behalf memory is mapped (malloc, pthread_create).
    void add_unwatched(const AllocatorEntry& entry);
    /// The modules that were unmapped took these with them.
    void forget(AddrRange range);

    /// A stopped thread is at the entry of one of these. `within_allocator`: in a call of malloc or
    /// its kin, as far as those are followed. With `can_watch_return` false (while leaving) it is
    /// not followed to its return.
    void on_entry(Tid tid, const arch::Registers& regs, const AllocatorEntry& entry,
                  bool within_allocator, bool can_watch_return);
    void on_return(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
        if (!pending_.empty()) {
            end_calls(tid, regs, breakpoint);
        }
    }
    void on_signal(Tid tid);
    void on_thread_gone(Tid tid);
    /// The address space is gone.
    void reset();

  private:
    /// Code that others' mappings are made by.
    struct OwnersCode {
        AddrRange range;
        MemoryKind kind;
    };

    /// What the memory is that the call whose stack is in backtrace_ maps.
    [[nodiscard]] MemoryKind kind_of(MappingCall call, CodeAddr entry, bool within_allocator) const;
    /// Does the user want to know what it maps?
    [[nodiscard]] bool follows(MappingCall call) const;
    [[nodiscard]] std::uint64_t read_break(CodeAddr entry) const;
    /// What the call is about to unmap, by its arguments; and notes what its return will need.
    [[nodiscard]] MappingEvent begin(const arch::Registers& regs, PendingCall& call) const;
    void end_calls(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    void finish(Tid tid, const PendingCall& call, std::uint64_t result);
    void fail(Tid tid, const PendingCall& call);
    void flush_abandoned(Tid tid);

    Target& target_;
    const ModuleMap& modules_;
    Unwinder& unwinder_;
    ReturnWatch& returns_;
    EventSink& sink_;
    unsigned backtrace_limit_;
    TrackedMemory tracked_;
    std::vector<OwnersCode> owners_;
    std::vector<const Module*> allocators_; ///< modules, but for the C library and the program
    absl::flat_hash_map<Tid, PendingCalls> pending_;
    UnwoundStack backtrace_;
    std::vector<PendingCall> abandoned_;
};

} // namespace memleax
