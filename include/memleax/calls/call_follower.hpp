// SPDX-License-Identifier: GPL-3.0-or-later
/// From calls of allocator functions to allocation events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/call.hpp"
#include "memleax/calls/call_environment.hpp"
#include "memleax/calls/mapping_follower.hpp"
#include "memleax/calls/nested_frees.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/event_sink.hpp"

namespace memleax {

struct FollowOptions {
    unsigned backtrace_limit = 50; ///< frames of a stack, 1 to 256
    bool check = false; ///< ends of blocks come with their stacks, and with what is wrong with them
};

/// Knows what entries and returns of allocator functions mean: calls within calls, tail calls,
/// realloc's two moments, calls that exceptions and longjmp have left. Knows nothing of breakpoints
/// and registers: an engine tells it of calls, each thread's in their order.
class CallFollower {
  public:
    /// All references must outlive it.
    CallFollower(CallEnvironment& environment, AccountAccess account,
                 std::shared_ptr<const AllocatorApi> api, const FollowOptions& options);

    /// Makes this function known; its number goes into CallEntry::function.
    int add_function(const AllocatorEntry& function);
    /// No calls of this function are told, but what it maps is an allocator's or a thread's.
    void add_unreported(const AllocatorEntry& function) { mappings_.add_owner(function); }
    /// The modules that were unmapped took these with them.
    void forget_functions(AddrRange range);
    /// Other code may be where some was.
    void modules_changed();
    /// Is this one of those that are known?
    [[nodiscard]] bool follows(const AllocatorFunction& function) const;
    /// And is any that maps memory?
    [[nodiscard]] bool follows_mappings() const;
    /// All, also those that are gone.
    [[nodiscard]] const std::vector<AllocatorEntry>& functions() const { return functions_; }
    [[nodiscard]] const AllocatorEntry& function(int number) const {
        return functions_[static_cast<std::size_t>(number)];
    }

    enum class Follow {
        to_return,
        not_at_all ///< (while leaving) but a block that ends is still counted
    };
    void on_entry(const CallEntry& call, CallSite& site, Follow follow);
    /// May be none that is known.
    void on_return(const CallReturn& call);
    /// What was recorded of calls that nobody stopped at, in the order in which it happened to each
    /// block. Such calls are made by no other that is known, and make none that is.
    void on_recorded(std::span<const RecordedCall> calls);
    /// Has a call of this thread's begun that has not returned?
    [[nodiscard]] bool has_pending(Tid tid) const;
    /// And one that returns to here, of any thread's?
    [[nodiscard]] bool awaits_return(CodeAddr address) const;
    /// The id of a call's stack, and how many frames that needs.
    [[nodiscard]] StackId intern(const UnwoundStack& stack);
    [[nodiscard]] unsigned walk_limit() const { return std::max(options_.backtrace_limit, 2U); }
    /// Are frees to come with their stacks, as all kinds of errors are looked for?
    [[nodiscard]] bool checks() const { return options_.check; }
    [[nodiscard]] unsigned backtrace_limit() const { return options_.backtrace_limit; }
    /// A signal is about to be delivered to the thread: a handler may make calls, and may leave
    /// those that are under way by siglongjmp.
    void on_signal(Tid tid);
    void on_thread_gone(Tid tid);
    /// The address space is gone.
    void reset();

  private:
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
        NestedFrees frees;
        Unfollowed last_unfollowed;
    };
    using ThreadCalls = std::vector<FamilyCalls>; ///< by family; empty at first
    /// What a call is that was made within another one.
    enum class Role {
        own,    ///< an event of its own
        part,   ///< nothing beside the outer one
        hidden, ///< nothing either, but its block must be known for none that was freed
    };
    /// The call that is being told of.
    struct Call {
        const CallEntry& entry;
        const AllocatorEntry& at;
        CallSite& site;
        [[nodiscard]] const AllocatorFunction& function() const { return *at.function; }
        [[nodiscard]] std::uint64_t argument(int n) const {
            return entry.arguments.at(static_cast<std::size_t>(n));
        }
        /// Its handle's, as an address.
        [[nodiscard]] RemoteAddr block() const;
    };

    [[nodiscard]] FamilyCalls& calls_of(Tid tid, AllocatorFamily family);
    [[nodiscard]] bool ends_live_block(const Call& call);
    /// Is it a part of a call that is told of later (on_recorded)?
    [[nodiscard]] bool is_recorded_ones_own(const Call& call);
    /// A block that a function of the user's replaces may have been made by one that is not named.
    [[nodiscard]] bool replaces_unknown(const Call& call);
    [[nodiscard]] Role role_within(FamilyCalls& calls, const Call& call);
    [[nodiscard]] bool is_for_exception(CodeAddr caller);
    /// Is the call that is made here one within these?
    [[nodiscard]] bool is_within(PendingCalls& calls, const Call& call);
    /// Is this call made by an allocator's, which is under way?
    [[nodiscard]] bool is_within_allocator(const Call& call);
    /// With `check`, of an address that is no live block's: can it never have been one's?
    [[nodiscard]] bool is_never_allocated(const Call& call, RemoteAddr address);
    /// glibc's malloc frees, when a thread ends, what the program has freed already and the
    /// thread's cache holds (tcache_thread_shutdown), through its own free: that is no free of the
    /// program's. So a free of a block that is not live does not count when its caller is the
    /// allocator's module.
    [[nodiscard]] bool is_allocators_own(CodeAddr caller, CodeAddr entry);
    void on_free(FamilyCalls& calls, const Call& call, Follow follow);
    /// Of a block that is not live. Nothing if it is not to be told.
    [[nodiscard]] std::optional<AllocationEvent> unknown_free(const Call& call,
                                                              AllocationEvent event);
    /// Each block has the address of the next one, at this offset.
    void free_chain(const CallEntry& call, RemoteAddr block, std::uint64_t next_offset);
    void begin_call(FamilyCalls& calls, const Call& call, Role role);
    /// The walked call `begun` begins, and its return will not be told.
    void count_unfollowed(Tid tid, FamilyCalls& calls, const PendingCall& begun,
                          const UnwoundStack& stack, MonotonicNs time, Unseen why);
    /// The block that a call has given; null if none.
    [[nodiscard]] RemoteAddr result_of(const PendingCall& call, std::uint64_t result);
    void finish_call(const PendingCall& call, const CallReturn& end);
    class Recording;
    void flush_abandoned(Tid tid, MonotonicNs time);

    CallEnvironment& environment_;
    AccountAccess account_;
    FollowOptions options_;
    std::shared_ptr<const AllocatorApi> api_; ///< functions and pending calls point into it
    std::vector<AllocatorEntry> functions_;   ///< address 0: gone
    unsigned functions_that_free_ = 0;
    absl::flat_hash_map<Tid, ThreadCalls> threads_;
    std::vector<PendingCall> abandoned_;
    absl::flat_hash_map<CodeAddr, bool> own_callers_;      ///< is_allocators_own(), by caller
    absl::flat_hash_map<CodeAddr, bool> exception_makers_; ///< is_for_exception(), by caller
    MappingFollower mappings_;
};

} // namespace memleax
