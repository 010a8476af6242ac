// SPDX-License-Identifier: GPL-3.0-or-later
#include "allocation_calls.hpp"

#include <algorithm>
#include <utility>

#include "memleax/base/clock.hpp"
#include "walked_call.hpp"

namespace memleax {

namespace {

/// Signals that come one within the other, each between a free and the one that it calls.
constexpr std::size_t kMaxInterruptedFrees = 8;

bool ends_blocks(const AllocatorEntry& entry) {
    return entry.function->call == AllocatorCall::free &&
           entry.function->mapping == MappingCall::none;
}

} // namespace

AllocationCalls::AllocationCalls(Target& target, ModuleMap& modules, BreakpointTable& breakpoints,
                                 EventSink& sink, std::shared_ptr<const AllocatorApi> api,
                                 const Int3Options& options)
    : target_(target), modules_(modules), breakpoints_(breakpoints), sink_(sink),
      unwinder_(modules, target.memory()), backtrace_limit_(options.backtrace_limit),
      check_(options.check), api_(std::move(api)), returns_(modules, breakpoints),
      mappings_(target, modules, unwinder_, returns_, sink, api_->tracked(), backtrace_limit_) {}

int AllocationCalls::add_entry(const AllocatorEntry& entry) {
    entries_.push_back(entry);
    free_entries_ += ends_blocks(entry) ? 1 : 0;
    mappings_.add_unwatched(entry);
    return static_cast<int>(entries_.size() - 1);
}

bool AllocationCalls::watches(const AllocatorFunction& function) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const auto& entry) { return entry.function == &function; });
}

void AllocationCalls::forget_entries(AddrRange range) {
    mappings_.forget(range);
    for (AllocatorEntry& entry : entries_) {
        if (range.contains(entry.address.value())) {
            free_entries_ -= ends_blocks(entry) ? 1 : 0;
            entry.address = CodeAddr();
        }
    }
}

void AllocationCalls::on_signal(Tid tid) {
    const auto it = threads_.find(tid);
    if (it != threads_.end()) {
        for (FamilyCalls& calls : it->second) {
            calls.pending.signal_delivered();
            if (calls.last_free.valid) {
                auto& interrupted = calls.interrupted_frees;
                interrupted.insert(interrupted.begin(), calls.last_free);
                interrupted.resize(std::min(interrupted.size(), kMaxInterruptedFrees));
                calls.last_free.valid = false;
            }
        }
    }
    mappings_.on_signal(tid);
}

void AllocationCalls::on_thread_gone(Tid tid) {
    mappings_.on_thread_gone(tid);
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    for (FamilyCalls& calls : it->second) {
        while (!calls.pending.empty()) {
            abandon(tid, calls.pending.pop());
        }
    }
    threads_.erase(it);
}

void AllocationCalls::reset() {
    threads_.clear();
    entries_.clear();
    returns_.reset();
    mappings_.reset();
    own_callers_.clear();
    exception_makers_.clear();
    free_entries_ = 0;
    unwinder_.modules_changed();
}

void AllocationCalls::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                             bool can_watch_return) {
    // An address may be both: the return comes first in time.
    if (breakpoint.is_return) {
        on_return(tid, regs, breakpoint);
        mappings_.on_return(tid, regs, breakpoint);
    }
    if (breakpoint.entry >= 0) {
        on_entry(tid, regs, breakpoint, can_watch_return);
    }
}

AllocationCalls::FamilyCalls& AllocationCalls::calls_of(Tid tid, AllocatorFamily family) {
    ThreadCalls& calls = threads_[tid];
    if (calls.empty()) {
        calls.resize(api_->families());
    }
    return calls[family];
}

void AllocationCalls::on_entry(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                               bool can_watch_return) {
    // A copy: following the call may add entries.
    const AllocatorEntry entry = entries_[static_cast<std::size_t>(breakpoint.entry)];
    if (entry.function->mapping != MappingCall::none) {
        mappings_.on_entry(tid, regs, entry, is_within_allocator(tid, regs, entry.address),
                           can_watch_return);
        return;
    }
    if (entry.in_c_library && entry.function->family != kMemory &&
        modules_.find(caller_of(regs)) == modules_.find(entry.address)) {
        return; // fopen's open; the close of fclose is another function
    }
    FamilyCalls& calls = calls_of(tid, entry.function->family);
    const bool nested = is_within(tid, calls.pending, regs, entry.address);
    // What ends a live block is more than a call's own affair, whoever made it.
    const Role role =
        nested && !ends_live_block(entry, regs) ? role_within(tid, calls, regs, entry) : Role::own;
    if (role == Role::part || replaces_unknown(entry, regs)) {
        return;
    }
    if (entry.function->call == AllocatorCall::free) {
        on_free(tid, calls, regs, entry, can_watch_return);
    } else if (can_watch_return) {
        calls.last_free.valid = false;
        begin_call(tid, calls, regs, entry, role);
    }
}

bool AllocationCalls::is_within_allocator(Tid tid, const arch::Registers& regs, CodeAddr entry) {
    const auto it = threads_.find(tid);
    return it != threads_.end() && is_within(tid, it->second[kMemory].pending, regs, entry);
}

bool AllocationCalls::replaces_unknown(const AllocatorEntry& entry, const arch::Registers& regs) {
    const AllocatorFunction& function = *entry.function;
    return function.call == AllocatorCall::realloc && !function.origin.empty() &&
           !is_no_handle(function,
                         arch::argument(regs, static_cast<unsigned>(function.pointer_argument))) &&
           !ends_live_block(entry, regs);
}

AllocationCalls::Role AllocationCalls::role_within(Tid tid, FamilyCalls& calls,
                                                   const arch::Registers& regs,
                                                   const AllocatorEntry& entry) {
    if (entry.function->call == AllocatorCall::free) {
        return Role::part;
    }
    const PendingCall& outer = calls.pending.innermost();
    if (outer.function->throws && is_for_exception(caller_of(regs))) {
        sink_.on_event({.kind = EventKind::failed_alloc,
                        .tid = tid,
                        .address = {},
                        .size = outer.size,
                        .old_address = {},
                        .stack = outer.stack,
                        .time = monotonic_now()});
        calls.pending.pop(); // it will not return
        return Role::own;
    }
    // A pool takes memory that it gives back at another time: that is no block, but its end is not
    // a second one of the block that was there before.
    const bool is_pools = !outer.function->origin.empty() && outer.function->family == kMemory;
    // Nor is it known what an interposer keeps for itself; the operators' is the block itself.
    const bool may_keep = check_ && outer.function->family == kMemory &&
                          outer.function->by != AllocatedBy::operator_new &&
                          outer.function->by != AllocatedBy::array_new;
    return is_pools || may_keep ? Role::hidden : Role::part;
}

CodeAddr AllocationCalls::caller_of(const arch::Registers& regs) {
    unwinder_.unwind_at_entry(regs, 2, &backtrace_);
    return backtrace_.frames.size() > 1 ? backtrace_.frames[1].lookup_pc() : CodeAddr();
}

bool AllocationCalls::is_for_exception(CodeAddr caller) {
    const auto [known, is_new] = exception_makers_.try_emplace(caller, false);
    if (is_new) {
        const Module* module = modules_.find(caller);
        known->second = module != nullptr && makes_exception(*module, module->to_elf(caller));
    }
    return known->second;
}

bool AllocationCalls::is_within(Tid tid, PendingCalls& calls, const arch::Registers& regs,
                                CodeAddr entry) {
    StoppedWalker walker(unwinder_, regs, backtrace_);
    const bool nested = is_nested(calls, {entry, arch::sp_after_return(regs)}, walker, &abandoned_);
    flush_abandoned(tid);
    return nested;
}

void AllocationCalls::walk_entry(const arch::Registers& regs, unsigned limit) {
    unwinder_.unwind_at_entry(regs, limit, &backtrace_);
    const StackEnd end = backtrace_.end;
    if (end != StackEnd::unknown_code && end != StackEnd::not_code) {
        return;
    }
    // Such an end may also be a broken stack, at each of its calls.
    constexpr std::int64_t kPauseNs = 1'000'000;
    constexpr std::int64_t kPauses = 20; // of the time that a look takes
    const MonotonicNs begin = monotonic_now();
    if (begin < next_look_for_code_) {
        return;
    }
    const bool is_news = modules_.look_for_generated_code();
    const MonotonicNs now = monotonic_now();
    next_look_for_code_ =
        MonotonicNs(now.value() + std::max(kPauseNs, kPauses * (now.value() - begin.value())));
    if (is_news) {
        unwinder_.modules_changed();
        unwinder_.unwind_at_entry(regs, limit, &backtrace_);
    }
}

void AllocationCalls::count_unfollowed(Tid tid, FamilyCalls& calls, PendingCall call, Unseen why) {
    Unfollowed& last = calls.last_unfollowed;
    const bool is_part = call.entry != last.entry && call.return_address == last.return_address &&
                         call.sp_after_return == last.sp_after_return && call.size == last.size;
    if (is_part) {
        return; // it was jumped to
    }
    last = {call.entry, call.return_address, call.sp_after_return, call.size};
    sink_.on_event({.kind = EventKind::unseen_alloc,
                    .tid = tid,
                    .address = {},
                    .size = call.size,
                    .old_address = call.old_block,
                    .stack = call.hidden ? kNoStack : intern(sink_, backtrace_, backtrace_limit_),
                    .time = monotonic_now(),
                    .unseen = why});
}

void AllocationCalls::begin_call(Tid tid, FamilyCalls& calls, const arch::Registers& regs,
                                 const AllocatorEntry& entry, Role role) {
    // Two at least: the return address is the second.
    walk_entry(regs, role == Role::hidden ? 2U : std::max(backtrace_limit_, 2U));
    PendingCall call = call_at(entry, backtrace_, regs);
    call.by = entry.function->family == kMemory ? entry.by : AllocatedBy::no_memory;
    call.hidden = role == Role::hidden;
    const bool replaces = !call.hidden && entry.function->pointer_argument >= 0;
    if (replaces) {
        call.old_block = handle_address(
            *entry.function,
            arch::argument(regs, static_cast<unsigned>(entry.function->pointer_argument)));
    }
    call.size = requested_size(*entry.function, regs);
    // Of a stack that we cannot read the thread is about to die; if it does not, it gets a block.
    const auto why = backtrace_.frames.size() < 2 ? Unseen::no_breakpoint
                                                  : returns_.watch(tid, call.return_address);
    if (why) {
        count_unfollowed(tid, calls, call, *why);
        return;
    }
    if (entry.function->out_argument >= 0) {
        call.out = arch::data_address(
            arch::argument(regs, static_cast<unsigned>(entry.function->out_argument)));
    }
    if (call.hidden) {
        calls.pending.push(call);
        return;
    }
    call.stack = intern(sink_, backtrace_, backtrace_limit_);
    if (call.old_block.value() != 0) {
        sink_.on_event({.kind = EventKind::realloc_begin,
                        .tid = tid,
                        .address = {},
                        .old_address = call.old_block,
                        .stack = call.stack,
                        .time = monotonic_now(),
                        .by = call.by,
                        .never_allocated = is_never_allocated(*entry.function, call.old_block)});
    }
    calls.pending.push(call);
}

void AllocationCalls::on_return(Tid tid, const arch::Registers& regs,
                                const Breakpoint& breakpoint) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    for (FamilyCalls& calls : it->second) {
        // More than one returns at once if the outer one ended by jumping to the inner.
        while (const auto call =
                   calls.pending.end(breakpoint.address, arch::sp(regs), &abandoned_)) {
            flush_abandoned(tid);
            finish_call(tid, *call, arch::return_value(regs));
        }
        flush_abandoned(tid);
    }
}

RemoteAddr AllocationCalls::result_of(const PendingCall& call, std::uint64_t result) {
    const AllocatorFunction& function = *call.function;
    std::uint64_t value = result;
    if (function.out_argument >= 0) {
        // posix_memalign returns an int, an error number.
        const bool is_stored = static_cast<std::uint32_t>(result) == 0;
        std::uint64_t stored = 0;
        if (function.is_descriptor) {
            const auto read = target_.memory().try_read_object<std::int32_t>(call.out);
            stored = static_cast<std::uint64_t>(read ? *read : -1);
        } else {
            stored = target_.memory().try_read_object<std::uint64_t>(call.out).value_or(0);
        }
        if (!is_stored) {
            return RemoteAddr();
        }
        value = stored;
    }
    return is_no_handle(function, value) ? RemoteAddr() : handle_address(function, value);
}

void AllocationCalls::finish_call(Tid tid, const PendingCall& call, std::uint64_t result) {
    const RemoteAddr block = result_of(call, result);
    if (call.hidden) {
        if (block.value() != 0) {
            sink_.on_event({.kind = EventKind::hidden_alloc,
                            .tid = tid,
                            .address = block,
                            .old_address = {},
                            .time = monotonic_now()});
        }
        return;
    }
    AllocationEvent event{.kind = EventKind::alloc,
                          .tid = tid,
                          .address = block,
                          .size = call.size,
                          .old_address = call.old_block,
                          .stack = call.stack,
                          .time = monotonic_now(),
                          .by = call.by};
    const bool reallocates = call.old_block.value() != 0;
    if (block.value() != 0) {
        event.kind = reallocates ? EventKind::realloc_end : EventKind::alloc;
    } else if (reallocates) {
        // glibc's realloc(p, 0) frees p and returns null (malloc(3)); musl's and jemalloc's do not.
        event.kind = call.size == 0 ? EventKind::realloc_free : EventKind::realloc_failed;
        if (event.kind == EventKind::realloc_failed) {
            sink_.on_event(event);
            event.kind = EventKind::failed_alloc;
        }
    } else if (call.function->family == kMemory && call.size == 0 &&
               (call.function->out_argument < 0 || result == 0)) {
        return; // malloc(0) may give null
    } else {
        event.kind = EventKind::failed_alloc;
    }
    sink_.on_event(event);
}

void AllocationCalls::abandon(Tid tid, const PendingCall& call) {
    if (call.old_block.value() != 0) {
        sink_.on_event({.kind = EventKind::realloc_failed,
                        .tid = tid,
                        .address = {},
                        .old_address = call.old_block,
                        .time = monotonic_now()});
    }
}

void AllocationCalls::flush_abandoned(Tid tid) {
    for (const PendingCall& call : abandoned_) {
        abandon(tid, call);
    }
    abandoned_.clear();
}

} // namespace memleax
