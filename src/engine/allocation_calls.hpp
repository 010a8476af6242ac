// SPDX-License-Identifier: GPL-3.0-or-later
/// From hits of breakpoints to allocation events.
#pragma once

#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/allocation_event.hpp"
#include "memleax/allocator_api.hpp"
#include "memleax/breakpoint.hpp"
#include "memleax/int3_engine.hpp"
#include "memleax/pending_calls.hpp"
#include "memleax/unwinder.hpp"

namespace memleax {

/// Follows every thread's allocator calls. Knows about calls, not about stops: it neither resumes
/// threads nor takes breakpoints out.
class AllocationCalls {
  public:
    AllocationCalls(Target& target, ModuleMap& modules, BreakpointTable& breakpoints,
                    EventSink& sink, unsigned backtrace_limit);

    /// Makes this entry point known; its index goes into Breakpoint::entry.
    int add_entry(const AllocatorEntry& entry);
    /// The modules that were unmapped took these with them.
    void forget_entries(AddrRange range);
    void modules_changed() {
        unwinder_.modules_changed();
        own_callers_.clear();
    }
    void set_signature_mask(std::uint64_t mask) { unwinder_.set_signature_mask(mask); }
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
        bool valid = false;
    };
    struct ThreadCalls {
        PendingCalls pending;
        LastFree last_free;
    };

    void on_entry(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                  bool can_watch_return);
    void on_return(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    [[nodiscard]] bool is_nested(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                                 CodeAddr entry);
    [[nodiscard]] bool is_free_within_free(const ThreadCalls& calls, const arch::Registers& regs,
                                           const AllocatorEntry& entry);
    /// glibc's malloc frees, when a thread ends, what the program has freed already and the
    /// thread's cache holds (tcache_thread_shutdown), through its own free: that is no free of the
    /// program's. So a free of a block that is not live does not count when its caller is the
    /// allocator's module.
    [[nodiscard]] bool is_allocators_own(CodeAddr caller, const AllocatorEntry& entry);
    void on_free(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                 const AllocatorEntry& entry, bool allocations_are_seen);
    void begin_call(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                    const AllocatorEntry& entry);
    void finish_call(Tid tid, const PendingCall& call, std::uint64_t result);
    void abandon(Tid tid, const PendingCall& call);
    void flush_abandoned(Tid tid);
    [[nodiscard]] bool watch_return(Tid tid, CodeAddr return_address);

    Target& target_;
    ModuleMap& modules_;
    BreakpointTable& breakpoints_;
    EventSink& sink_;
    Unwinder unwinder_;
    unsigned backtrace_limit_;
    std::vector<AllocatorEntry> entries_; ///< address 0: gone
    unsigned free_entries_ = 0;           ///< how many of them end blocks
    absl::flat_hash_map<Tid, ThreadCalls> threads_;
    Backtrace backtrace_; ///< reused, so that no walk allocates
    std::vector<PendingCall> abandoned_;
    absl::flat_hash_map<CodeAddr, bool> own_callers_; ///< is_allocators_own(), by caller
    absl::flat_hash_map<CodeAddr, std::uint64_t>
        unwatched_returns_; ///< and how often they were seen
};

} // namespace memleax
