// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/calls/call_follower.hpp"

#include <algorithm>
#include <utility>

#include "arch.hpp"
#include "memleax/base/clock.hpp"
#include "nesting.hpp"

namespace memleax {

namespace {

bool ends_blocks(const AllocatorEntry& entry) {
    return entry.function->call == AllocatorCall::free &&
           entry.function->mapping == MappingCall::none;
}

} // namespace

CallFollower::CallFollower(CallEnvironment& environment, AccountAccess account,
                           std::shared_ptr<const AllocatorApi> api, const FollowOptions& options)
    : environment_(environment), account_(account), options_(options), api_(std::move(api)),
      mappings_(environment, account, api_->tracked(), options.backtrace_limit) {}

int CallFollower::add_function(const AllocatorEntry& function) {
    functions_.push_back(function);
    functions_that_free_ += ends_blocks(function) ? 1 : 0;
    mappings_.add_owner(function);
    return static_cast<int>(functions_.size() - 1);
}

bool CallFollower::follows(const AllocatorFunction& function) const {
    return std::any_of(functions_.begin(), functions_.end(),
                       [&](const auto& each) { return each.function == &function; });
}

bool CallFollower::follows_mappings() const {
    return std::any_of(functions_.begin(), functions_.end(), [](const auto& each) {
        return each.function->mapping != MappingCall::none;
    });
}

void CallFollower::forget_functions(AddrRange range) {
    mappings_.forget_owners(range);
    for (AllocatorEntry& function : functions_) {
        if (range.contains(function.address)) {
            functions_that_free_ -= ends_blocks(function) ? 1 : 0;
            function.address = CodeAddr();
        }
    }
}

void CallFollower::modules_changed() {
    own_callers_.clear();
    exception_makers_.clear();
}

void CallFollower::on_signal(Tid tid) {
    const auto it = threads_.find(tid);
    if (it != threads_.end()) {
        for (FamilyCalls& calls : it->second) {
            calls.pending.signal_delivered();
            calls.frees.signal_delivered();
        }
    }
    mappings_.on_signal(tid);
}

void CallFollower::on_thread_gone(Tid tid) {
    mappings_.on_thread_gone(tid);
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    for (FamilyCalls& calls : it->second) {
        while (!calls.pending.empty()) {
            abandoned_.push_back(calls.pending.pop());
        }
    }
    flush_abandoned(tid, monotonic_now());
    threads_.erase(it);
}

void CallFollower::reset() {
    threads_.clear();
    functions_.clear();
    functions_that_free_ = 0;
    mappings_.reset();
    modules_changed();
}

CallFollower::FamilyCalls& CallFollower::calls_of(Tid tid, AllocatorFamily family) {
    ThreadCalls& calls = threads_[tid];
    if (calls.empty()) {
        calls.resize(api_->families());
    }
    return calls[family];
}

RemoteAddr CallFollower::Call::block() const {
    return handle_address(function(), argument(function().pointer_argument));
}

void CallFollower::on_entry(const CallEntry& entry, CallSite& site, Follow follow) {
    const AllocatorEntry at = function(entry.function);
    const Call call{entry, at, site};
    if (at.function->mapping != MappingCall::none) {
        if (follow == Follow::to_return) {
            mappings_.on_entry(entry, at, site,
                               site.is_within_recorded() || is_within_allocator(call));
        }
        return;
    }
    if (at.in_c_library && at.function->family != kMemory &&
        environment_.in_same_module(caller_of(site), at.address)) {
        return; // fopen's open; the close of fclose is another function
    }
    FamilyCalls& calls = calls_of(entry.tid, at.function->family);
    const bool nested = is_within(calls.pending, call);
    // What ends a live block is more than a call's own affair, whoever made it.
    const Role role = nested && !ends_live_block(call) ? role_within(calls, call) : Role::own;
    if (role == Role::part || replaces_unknown(call) || is_recorded_ones_own(call)) {
        return;
    }
    if (at.function->call == AllocatorCall::free) {
        on_free(calls, call, follow);
    } else if (follow == Follow::to_return) {
        calls.frees.forget_last();
        begin_call(calls, call, role);
    }
}

bool CallFollower::ends_live_block(const Call& call) {
    return call.function().pointer_argument >= 0 && account_.queries.is_live(call.block());
}

bool CallFollower::is_recorded_ones_own(const Call& call) {
    return call.function().family == kMemory && call.site.is_within_recorded() &&
           !ends_live_block(call);
}

bool CallFollower::replaces_unknown(const Call& call) {
    const AllocatorFunction& function = call.function();
    return function.call == AllocatorCall::realloc && !function.origin.empty() &&
           !is_no_handle(function, call.argument(function.pointer_argument)) &&
           !ends_live_block(call);
}

CallFollower::Role CallFollower::role_within(FamilyCalls& calls, const Call& call) {
    if (call.function().call == AllocatorCall::free) {
        return Role::part;
    }
    const PendingCall& outer = calls.pending.innermost();
    if (outer.function->throws && is_for_exception(caller_of(call.site))) {
        account_.events.on_event({.kind = EventKind::failed_alloc,
                                  .tid = call.entry.tid,
                                  .address = {},
                                  .size = outer.size,
                                  .old_address = {},
                                  .stack = outer.stack,
                                  .time = call.entry.time});
        calls.pending.pop(); // it will not return
        return Role::own;
    }
    // A pool takes memory that it gives back at another time: that is no block, but its end is not
    // a second one of the block that was there before.
    const bool is_pools = !outer.function->origin.empty() && outer.function->family == kMemory;
    // Nor is it known what an interposer keeps for itself; the operators' is the block itself.
    const bool may_keep = options_.check && outer.function->family == kMemory &&
                          outer.function->by != AllocatedBy::operator_new &&
                          outer.function->by != AllocatedBy::array_new;
    return is_pools || may_keep ? Role::hidden : Role::part;
}

bool CallFollower::is_for_exception(CodeAddr caller) {
    const auto [known, is_new] = exception_makers_.try_emplace(caller, false);
    if (is_new) {
        known->second = environment_.makes_exception(caller);
    }
    return known->second;
}

bool CallFollower::is_within(PendingCalls& calls, const Call& call) {
    const bool nested =
        is_nested(calls, call.at.address, call.entry.sp_after_return, call.site, &abandoned_);
    flush_abandoned(call.entry.tid, call.entry.time);
    return nested;
}

bool CallFollower::is_within_allocator(const Call& call) {
    const auto it = threads_.find(call.entry.tid);
    return it != threads_.end() && is_within(it->second[kMemory].pending, call);
}

StackId CallFollower::intern(const UnwoundStack& stack) {
    return intern_first(account_.stacks, stack, options_.backtrace_limit);
}

void CallFollower::begin_call(FamilyCalls& calls, const Call& call, Role role) {
    const AllocatorFunction& function = call.function();
    const UnwoundStack& stack = call.site.walk(role == Role::hidden ? 2U : walk_limit());
    PendingCall begun;
    begun.function = &function;
    begun.entry = call.at.address;
    begun.return_address = return_address(stack);
    begun.sp_after_return = call.entry.sp_after_return;
    begun.by = function.family == kMemory ? call.at.by : AllocatedBy::no_memory;
    begun.hidden = role == Role::hidden;
    if (!begun.hidden && function.pointer_argument >= 0) {
        begun.old_block = call.block();
    }
    begun.size = requested_size(function, call.entry.arguments);
    // Of a stack that we cannot read the thread is about to die; if it does not, it gets a block.
    const auto why = begun.return_address.value() == 0
                         ? Unseen::no_breakpoint
                         : call.site.watch_return(begun.return_address);
    if (why) {
        const UnwoundStack& recorded = begun.hidden ? stack : call.site.to_record(stack);
        count_unfollowed(call.entry.tid, calls, begun, recorded, call.entry.time, *why);
        return;
    }
    if (function.out_argument >= 0) {
        begun.out = arch::data_address(call.argument(function.out_argument));
    }
    if (!begun.hidden) {
        begun.stack = intern(call.site.to_record(stack));
    }
    if (begun.old_block.value() != 0) {
        account_.events.on_event({.kind = EventKind::realloc_begin,
                                  .tid = call.entry.tid,
                                  .address = {},
                                  .old_address = begun.old_block,
                                  .stack = begun.stack,
                                  .time = call.entry.time,
                                  .by = begun.by,
                                  .never_allocated = is_never_allocated(call, begun.old_block)});
    }
    calls.pending.push(begun);
}

void CallFollower::count_unfollowed(Tid tid, FamilyCalls& calls, const PendingCall& begun,
                                    const UnwoundStack& stack, MonotonicNs time, Unseen why) {
    Unfollowed& last = calls.last_unfollowed;
    const bool is_part = begun.entry != last.entry && begun.return_address == last.return_address &&
                         begun.sp_after_return == last.sp_after_return && begun.size == last.size;
    if (is_part) {
        return; // it was jumped to
    }
    last = {begun.entry, begun.return_address, begun.sp_after_return, begun.size};
    account_.events.on_event({.kind = EventKind::unseen_alloc,
                              .tid = tid,
                              .address = {},
                              .size = begun.size,
                              .old_address = begun.old_block,
                              .stack = begun.hidden ? kNoStack : intern(stack),
                              .time = time,
                              .unseen = why});
}

void CallFollower::on_return(const CallReturn& end) {
    if (const auto it = threads_.find(end.tid); it != threads_.end()) {
        for (FamilyCalls& calls : it->second) {
            // More than one returns at once if the outer one ended by jumping to the inner.
            while (const auto call = calls.pending.on_return(end.address, end.sp, &abandoned_)) {
                flush_abandoned(end.tid, end.time);
                finish_call(*call, end);
            }
            flush_abandoned(end.tid, end.time);
        }
    }
    mappings_.on_return(end);
}

RemoteAddr CallFollower::result_of(const PendingCall& call, std::uint64_t result) {
    const AllocatorFunction& function = *call.function;
    std::uint64_t value = result;
    if (function.out_argument >= 0) {
        // posix_memalign returns an int, an error number.
        const bool is_stored = static_cast<std::uint32_t>(result) == 0;
        std::uint64_t stored = 0;
        if (function.is_descriptor) {
            const auto read = environment_.memory().try_read_object<std::int32_t>(call.out);
            stored = static_cast<std::uint64_t>(read ? *read : -1);
        } else {
            stored = environment_.memory().try_read_object<std::uint64_t>(call.out).value_or(0);
        }
        if (!is_stored) {
            return RemoteAddr();
        }
        value = stored;
    }
    return is_no_handle(function, value) ? RemoteAddr() : handle_address(function, value);
}

void CallFollower::finish_call(const PendingCall& call, const CallReturn& end) {
    const RemoteAddr block = result_of(call, end.result);
    if (call.hidden) {
        if (block.value() != 0) {
            account_.events.on_event({.kind = EventKind::hidden_alloc,
                                      .tid = end.tid,
                                      .address = block,
                                      .old_address = {},
                                      .time = end.time});
        }
        return;
    }
    AllocationEvent event{.kind = EventKind::alloc,
                          .tid = end.tid,
                          .address = block,
                          .size = call.size,
                          .old_address = call.old_block,
                          .stack = call.stack,
                          .time = end.time,
                          .by = call.by};
    const bool reallocates = call.old_block.value() != 0;
    if (block.value() != 0) {
        event.kind = reallocates ? EventKind::realloc_end : EventKind::alloc;
    } else if (reallocates) {
        // glibc's realloc(p, 0) frees p and returns null (malloc(3)); musl's and jemalloc's do not.
        event.kind = call.size == 0 ? EventKind::realloc_free : EventKind::realloc_failed;
        if (event.kind == EventKind::realloc_failed) {
            account_.events.on_event(event);
            event.kind = EventKind::failed_alloc;
        }
    } else if (call.function->family == kMemory && call.size == 0 &&
               (call.function->out_argument < 0 || end.result == 0)) {
        return; // malloc(0) may give null
    } else {
        event.kind = EventKind::failed_alloc;
    }
    account_.events.on_event(event);
}

void CallFollower::flush_abandoned(Tid tid, MonotonicNs time) {
    drain(abandoned_, [&](const PendingCall& call) {
        if (call.old_block.value() != 0) {
            account_.events.on_event({.kind = EventKind::realloc_failed,
                                      .tid = tid,
                                      .address = {},
                                      .old_address = call.old_block,
                                      .time = time});
        }
    });
}

} // namespace memleax
