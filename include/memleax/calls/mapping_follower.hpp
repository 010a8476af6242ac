// SPDX-License-Identifier: GPL-3.0-or-later
/// From calls of functions that map memory to events.
#pragma once

#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/call.hpp"
#include "memleax/calls/call_environment.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/event_sink.hpp"

namespace memleax {

/// Follows every thread's calls of mmap(2) and its kin. Each is followed to its return, which alone
/// tells whether anything has changed. Calls within each other (sbrk calling brk, an interposer's
/// mmap the real one) count as the outermost.
class MappingFollower {
  public:
    /// All references must outlive it.
    MappingFollower(CallEnvironment& environment, AccountAccess account,
                    const TrackedMemory& tracked, unsigned backtrace_limit);

    /// A function on whose behalf memory is mapped (malloc, pthread_create); others are ignored.
    void add_owner(const AllocatorEntry& function);
    /// The modules that were unmapped took these with them.
    void forget_owners(AddrRange range);

    /// `within_allocator`: in a call of malloc or its kin, as far as those are followed. Not to be
    /// called while leaving, when no return will be told.
    void on_entry(const CallEntry& call, const AllocatorEntry& at, CallSite& site,
                  bool within_allocator);
    void on_return(const CallReturn& end) {
        if (!pending_.empty()) {
            finish_calls(end);
        }
    }
    /// Has a call begun that returns to here?
    [[nodiscard]] bool awaits_return(CodeAddr address) const;
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

    /// What the memory is that the call with this stack maps.
    [[nodiscard]] MemoryKind kind_of(const AllocatorEntry& at, const UnwoundStack& stack,
                                     bool within_allocator);
    [[nodiscard]] bool is_allocators_module(CodeAddr code);
    /// Does the user want to know what it maps?
    [[nodiscard]] bool follows(MappingCall call) const;
    [[nodiscard]] std::uint64_t read_break(CodeAddr entry);
    /// What the call is about to unmap, by its arguments; and notes what its return will need.
    [[nodiscard]] MappingEvent event_at_entry(const CallArguments& arguments, PendingCall& call);
    void finish_calls(const CallReturn& end);
    void finish(const PendingCall& call, const CallReturn& end);
    void fail(Tid tid, const PendingCall& call, MonotonicNs time);
    void flush_abandoned(Tid tid, MonotonicNs time);

    CallEnvironment& environment_;
    AccountAccess account_;
    unsigned backtrace_limit_;
    TrackedMemory tracked_;
    std::vector<OwnersCode> owners_;
    /// One function of each module that is an allocator's, but for the C library and the program.
    std::vector<CodeAddr> allocators_;
    absl::flat_hash_map<Tid, PendingCalls> pending_;
    std::vector<PendingCall> abandoned_;
};

} // namespace memleax
