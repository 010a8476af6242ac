// SPDX-License-Identifier: GPL-3.0-or-later
/// From hits of breakpoints to allocation events.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "mapping_calls.hpp"
#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/engine/int3_engine.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "return_watch.hpp"

namespace memleax {

/// Follows every thread's allocator calls. Knows about calls, not about stops: it neither resumes
/// threads nor takes breakpoints out.
class AllocationCalls {
  public:
    AllocationCalls(Target& target, ModuleMap& modules, BreakpointTable& breakpoints,
                    EventSink& sink, std::shared_ptr<const AllocatorApi> api,
                    const Int3Options& options);

    /// Makes this entry point known; its index goes into Breakpoint::entry.
    int add_entry(const AllocatorEntry& entry);
    /// This function has no breakpoint, but what it maps is an allocator's or a thread's.
    void add_unwatched(const AllocatorEntry& entry) { mappings_.add_unwatched(entry); }
    /// The modules that were unmapped took these with them.
    void forget_entries(AddrRange range);
    void modules_changed() {
        unwinder_.modules_changed();
        own_callers_.clear();
        exception_makers_.clear();
    }
    /// These are the mappings at a time when all entry points are watched: what the heap (brk(2))
    /// grows by from then on is given to nobody without our seeing it.
    void set_first_mappings(const std::vector<Mapping>& mappings);
    void set_signature_mask(std::uint64_t mask) { unwinder_.set_signature_mask(mask); }
    /// Is there an entry point of this function?
    [[nodiscard]] bool watches(const AllocatorFunction& function) const;
    [[nodiscard]] const AllocatorEntry& entry(int index) const {
        return entries_[static_cast<std::size_t>(index)];
    }

    /// A stopped thread has executed this breakpoint. With `can_watch_return` false (while leaving)
    /// no call is followed any more, but a block that ends is still counted.
    void on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                bool can_watch_return);
    /// A signal is about to be delivered to the thread.
    void on_signal(Tid tid);
    void on_thread_gone(Tid tid);
    /// The address space is gone.
    void reset();

  private:
    /// A thread's last free that was counted: an interposer's free that calls the real one must not
    /// count twice, and has no return breakpoint to tell that it is over.
    struct LastFree {
        CodeAddr entry;
        RemoteAddr sp_after_return;
        RemoteAddr block;
        bool valid = false;
        CodeAddr caller; ///< where it returns to; with `check` only
    };
    /// A thread's last allocation that was not followed: what it jumps on to is a part of it.
    struct Unfollowed {
        CodeAddr entry; ///< 0: there was none
        CodeAddr return_address;
        RemoteAddr sp_after_return;
        std::uint64_t size = 0;
    };
    /// What a thread does with blocks of one family.
    struct FamilyCalls {
        PendingCalls pending;
        LastFree last_free;
        Unfollowed last_unfollowed;
        /// Last frees that a signal came after, the newest first. They may go on when the handler,
        /// which frees as well, has returned; nothing tells when they are over.
        std::vector<LastFree> interrupted_frees;
    };
    using ThreadCalls = std::vector<FamilyCalls>; ///< by family; empty at first
    /// What a call is that was made within another one.
    enum class Role {
        own,    ///< an event of its own
        part,   ///< nothing beside the outer one
        hidden, ///< nothing either, but its block must be known for none that was freed
    };

    void on_entry(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                  bool can_watch_return);
    void on_return(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    [[nodiscard]] FamilyCalls& calls_of(Tid tid, AllocatorFamily family);
    [[nodiscard]] bool ends_live_block(const AllocatorEntry& entry, const arch::Registers& regs);
    /// A block that a function of the user's replaces may have been made by one that is not named.
    [[nodiscard]] bool replaces_unknown(const AllocatorEntry& entry, const arch::Registers& regs);
    [[nodiscard]] Role role_within(Tid tid, FamilyCalls& calls, const arch::Registers& regs,
                                   const AllocatorEntry& entry);
    [[nodiscard]] CodeAddr caller_of(const arch::Registers& regs);
    [[nodiscard]] bool is_for_exception(CodeAddr caller);
    /// Is the call that is made here one within these?
    [[nodiscard]] bool is_within(Tid tid, PendingCalls& calls, const arch::Registers& regs,
                                 CodeAddr entry);
    /// Is this free a part of another one, which has been counted? `caller` is where it returns to,
    /// if that is known.
    [[nodiscard]] bool is_free_within_free(FamilyCalls& calls, const arch::Registers& regs,
                                           const AllocatorEntry& entry, RemoteAddr block,
                                           CodeAddr caller);
    [[nodiscard]] bool is_tail_call_of(const LastFree& outer, RemoteAddr sp, CodeAddr entry,
                                       RemoteAddr block, CodeAddr caller);
    /// Is the code of this free on the stack that was walked last, on this side of any handler?
    [[nodiscard]] bool is_on_stack(const LastFree& outer) const;
    /// With `check`, of an address that is no live block's: can it never have been one's?
    [[nodiscard]] bool is_never_allocated(const AllocatorFunction& function, RemoteAddr address);
    /// glibc's malloc frees, when a thread ends, what the program has freed already and the
    /// thread's cache holds (tcache_thread_shutdown), through its own free: that is no free of the
    /// program's. So a free of a block that is not live does not count when its caller is the
    /// allocator's module.
    [[nodiscard]] bool is_allocators_own(CodeAddr caller, const AllocatorEntry& entry);
    void on_free(Tid tid, FamilyCalls& calls, const arch::Registers& regs,
                 const AllocatorEntry& entry, bool allocations_are_seen);
    /// Each block has the address of the next one, at this offset.
    void free_chain(Tid tid, RemoteAddr block, std::uint64_t next_offset);
    /// Walks the stack of a call, where `regs` are at its entry. If it ends at code that nobody has
    /// told us of, as a compiler's at run time, that is looked for, now and then.
    void walk_entry(const arch::Registers& regs, unsigned limit);
    void begin_call(Tid tid, FamilyCalls& calls, const arch::Registers& regs,
                    const AllocatorEntry& entry, Role role);
    /// The walked call `call` begins, and its return will not be seen.
    void count_unfollowed(Tid tid, FamilyCalls& calls, PendingCall call, Unseen why);
    /// The block that a call has given; null if none.
    [[nodiscard]] RemoteAddr result_of(const PendingCall& call, std::uint64_t result);
    void finish_call(Tid tid, const PendingCall& call, std::uint64_t result);
    void abandon(Tid tid, const PendingCall& call);
    void flush_abandoned(Tid tid);
    /// Is this call made by an allocator's, which is under way?
    [[nodiscard]] bool is_within_allocator(Tid tid, const arch::Registers& regs, CodeAddr entry);

    Target& target_;
    ModuleMap& modules_;
    BreakpointTable& breakpoints_;
    EventSink& sink_;
    Unwinder unwinder_;
    unsigned backtrace_limit_;
    bool check_;
    AddrRange new_heap_;                      ///< what came since the first mappings, as last seen
    std::optional<MonotonicNs> heap_seen_;    ///< when that was
    std::shared_ptr<const AllocatorApi> api_; ///< entries and pending calls point into it
    std::vector<AllocatorEntry> entries_;     ///< address 0: gone
    unsigned free_entries_ = 0;               ///< how many of them end blocks
    absl::flat_hash_map<Tid, ThreadCalls> threads_;
    MonotonicNs next_look_for_code_;
    UnwoundStack backtrace_; ///< reused, so that no walk allocates
    std::vector<PendingCall> abandoned_;
    absl::flat_hash_map<CodeAddr, bool> own_callers_;      ///< is_allocators_own(), by caller
    absl::flat_hash_map<CodeAddr, bool> exception_makers_; ///< is_for_exception(), by caller
    ReturnWatch returns_;
    MappingCalls mappings_;
};

} // namespace memleax
