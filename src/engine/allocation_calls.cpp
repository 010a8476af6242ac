// SPDX-License-Identifier: GPL-3.0-or-later
#include "allocation_calls.hpp"

#include <algorithm>

#include "memleax/clock.hpp"
#include "memleax/log.hpp"

namespace memleax {

namespace {

/// Deep enough to find the call that made another one, when only a walk can tell.
constexpr unsigned kNestingWalkLimit = 256;

} // namespace

AllocationCalls::AllocationCalls(Target& target, ModuleMap& modules, BreakpointTable& breakpoints,
                                 EventSink& sink, unsigned backtrace_limit)
    : target_(target), modules_(modules), breakpoints_(breakpoints), sink_(sink),
      unwinder_(modules, target.memory()), backtrace_limit_(backtrace_limit) {}

int AllocationCalls::add_entry(const AllocatorEntry& entry) {
    entries_.push_back(entry);
    free_entries_ += entry.function->call == AllocatorCall::free ? 1 : 0;
    return static_cast<int>(entries_.size() - 1);
}

void AllocationCalls::forget_entries(AddrRange range) {
    for (AllocatorEntry& entry : entries_) {
        if (range.contains(entry.address.value())) {
            free_entries_ -= entry.function->call == AllocatorCall::free ? 1 : 0;
            entry.address = CodeAddr();
        }
    }
}

void AllocationCalls::on_signal(Tid tid) {
    const auto it = threads_.find(tid);
    if (it != threads_.end()) {
        it->second.pending.signal_delivered();
        it->second.last_free.valid = false;
    }
}

void AllocationCalls::on_thread_gone(Tid tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    while (!it->second.pending.empty()) {
        abandon(tid, it->second.pending.pop());
    }
    threads_.erase(it);
}

void AllocationCalls::reset() {
    threads_.clear();
    entries_.clear();
    unwatched_returns_.clear();
    own_callers_.clear();
    free_entries_ = 0;
    unwinder_.modules_changed();
}

void AllocationCalls::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                             bool can_watch_return) {
    // An address may be both: the return comes first in time.
    if (breakpoint.is_return) {
        on_return(tid, regs, breakpoint);
    }
    if (breakpoint.entry >= 0) {
        on_entry(tid, regs, breakpoint, can_watch_return);
    }
}

void AllocationCalls::on_entry(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                               bool can_watch_return) {
    // A copy: following the call may add entries.
    const AllocatorEntry entry = entries_[static_cast<std::size_t>(breakpoint.entry)];
    ThreadCalls& calls = threads_[tid];
    const bool nested = is_nested(tid, calls, regs, entry.address);
    flush_abandoned(tid);
    if (nested) {
        return;
    }
    if (entry.function->call == AllocatorCall::free) {
        on_free(tid, calls, regs, entry, can_watch_return);
    } else if (can_watch_return) {
        calls.last_free.valid = false;
        begin_call(tid, calls, regs, entry);
    }
}

bool AllocationCalls::is_nested(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                                CodeAddr entry) {
    const RemoteAddr sp = arch::sp_after_return(regs);
    for (;;) {
        const Nesting nesting = calls.pending.begin(entry, sp, &abandoned_);
        if (nesting != Nesting::unclear) {
            return nesting == Nesting::nested;
        }
        unwinder_.unwind_at_entry(regs, kNestingWalkLimit, &backtrace_);
        if (backtrace_.crossed_signal_frame) {
            return false; // the handler's own call, whatever it interrupted
        }
        const CodeAddr returns_to = calls.pending.innermost().return_address;
        const bool still_active =
            std::any_of(backtrace_.frames.begin(), backtrace_.frames.end(),
                        [returns_to](FrameAddress frame) { return frame.pc() == returns_to; });
        if (still_active) {
            calls.pending.handler_gone(); // it has returned; the next look decides
        } else {
            abandon(tid, calls.pending.pop()); // it was left by siglongjmp
        }
    }
}

void AllocationCalls::on_free(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                              const AllocatorEntry& entry, bool allocations_are_seen) {
    const RemoteAddr address = arch::data_address(
        arch::argument(regs, static_cast<unsigned>(entry.function->pointer_argument)));
    if (free_entries_ > 1 && is_free_within_free(calls, regs, entry)) {
        return;
    }
    calls.last_free = {entry.address, arch::sp_after_return(regs), true};
    if (address.value() == 0) {
        return;
    }
    AllocationEvent event{.kind = EventKind::free,
                          .tid = tid,
                          .address = address,
                          .old_address = {},
                          .time = monotonic_now()};
    const bool live = sink_.is_live(address);
    if (!live && !allocations_are_seen) {
        return; // made in the moment before this, perhaps, where another had been freed
    }
    if (!live) {
        const bool suspect = sink_.wants_free_stack(address);
        unwinder_.unwind_at_entry(regs, suspect ? std::max(backtrace_limit_, 2U) : 2U, &backtrace_);
        if (backtrace_.frames.size() > 1 &&
            is_allocators_own(backtrace_.frames[1].lookup_pc(), entry)) {
            return;
        }
        if (suspect) {
            event.stack = sink_.intern(backtrace_.frames, backtrace_.end);
        }
    }
    sink_.on_event(event);
}

bool AllocationCalls::is_allocators_own(CodeAddr caller, const AllocatorEntry& entry) {
    const auto [known, is_new] = own_callers_.try_emplace(caller, false);
    if (!is_new) {
        return known->second;
    }
    const Module* module = modules_.find(caller);
    if (module == nullptr || module != modules_.find(entry.address)) {
        return false;
    }
    // In a program of one piece only the names tell its code and the allocator's apart.
    known->second =
        module != modules_.main() || frees_cached_blocks(*module, module->to_elf(caller));
    return known->second;
}

bool AllocationCalls::is_free_within_free(const ThreadCalls& calls, const arch::Registers& regs,
                                          const AllocatorEntry& entry) {
    const LastFree& last = calls.last_free;
    const RemoteAddr sp = arch::sp_after_return(regs);
    if (!last.valid || last.entry == entry.address || sp > last.sp_after_return) {
        return false;
    }
    if (sp == last.sp_after_return) {
        return true; // a tail call
    }
    const auto outer = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const auto& e) { return e.address == last.entry; });
    if (outer == entries_.end()) {
        return false;
    }
    const AddrRange code{outer->address.value(),
                         outer->address.value() + std::max<std::uint64_t>(outer->size, 1)};
    unwinder_.unwind_at_entry(regs, kNestingWalkLimit, &backtrace_);
    return std::any_of(backtrace_.frames.begin(), backtrace_.frames.end(), [&](FrameAddress frame) {
        return code.contains(frame.lookup_pc().value());
    });
}

void AllocationCalls::begin_call(Tid tid, ThreadCalls& calls, const arch::Registers& regs,
                                 const AllocatorEntry& entry) {
    // Two at least: the return address is the second.
    unwinder_.unwind_at_entry(regs, std::max(backtrace_limit_, 2U), &backtrace_);
    if (backtrace_.frames.size() < 2) {
        return; // an unreadable stack: the thread is about to die of it
    }
    PendingCall call;
    call.function = entry.function;
    call.entry = entry.address;
    call.return_address = backtrace_.frames[1].pc();
    call.sp_after_return = arch::sp_after_return(regs);
    if (!watch_return(tid, call.return_address)) {
        return;
    }
    call.size = requested_size(*entry.function, regs);
    if (entry.function->pointer_argument >= 0) {
        call.old_block = arch::data_address(
            arch::argument(regs, static_cast<unsigned>(entry.function->pointer_argument)));
    }
    if (entry.function->out_argument >= 0) {
        call.out = arch::data_address(
            arch::argument(regs, static_cast<unsigned>(entry.function->out_argument)));
    }
    const bool cut = backtrace_.frames.size() > backtrace_limit_;
    call.stack = sink_.intern(
        std::span(backtrace_.frames).first(cut ? backtrace_limit_ : backtrace_.frames.size()),
        cut ? StackEnd::limit : backtrace_.end);
    if (call.old_block.value() != 0) {
        sink_.on_event({.kind = EventKind::realloc_begin,
                        .tid = tid,
                        .address = {},
                        .old_address = call.old_block,
                        .time = monotonic_now()});
    }
    calls.pending.push(call);
}

bool AllocationCalls::watch_return(Tid tid, CodeAddr return_address) {
    if (Breakpoint* known = breakpoints_.find(return_address)) {
        known->is_return = true;
        return true;
    }
    const auto unwatched = unwatched_returns_.find(return_address);
    if (unwatched != unwatched_returns_.end()) {
        ++unwatched->second;
        return false;
    }
    // Generated code is not patched: it may be moved, with our breakpoint in it, or thrown away and
    // its place be used for other bytes, which we would then "restore".
    std::string problem = "it is not in a mapped file";
    if (modules_.find(return_address) != nullptr) {
        auto inserted = breakpoints_.insert(return_address, tid);
        if (inserted) {
            (*inserted)->is_return = true;
            return true;
        }
        problem = inserted.error().message();
    }
    log_warning("calls of the allocator that return to {:#x} are not seen: {}",
                return_address.value(), problem);
    unwatched_returns_.emplace(return_address, 1);
    return false;
}

void AllocationCalls::on_return(Tid tid, const arch::Registers& regs,
                                const Breakpoint& breakpoint) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    const auto call = it->second.pending.end(breakpoint.address, arch::sp(regs), &abandoned_);
    flush_abandoned(tid);
    if (call) {
        finish_call(tid, *call, arch::return_value(regs));
    }
}

void AllocationCalls::finish_call(Tid tid, const PendingCall& call, std::uint64_t result) {
    RemoteAddr block = arch::data_address(result);
    if (call.function->out_argument >= 0) {
        // posix_memalign returns an error number.
        const auto stored = target_.memory().try_read_object<std::uint64_t>(call.out);
        block = arch::data_address(result == 0 && stored ? *stored : 0);
    }
    AllocationEvent event{.kind = EventKind::alloc,
                          .tid = tid,
                          .address = block,
                          .size = call.size,
                          .old_address = call.old_block,
                          .stack = call.stack,
                          .time = monotonic_now()};
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
    } else if (call.size == 0 && (call.function->out_argument < 0 || result == 0)) {
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
