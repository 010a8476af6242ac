// SPDX-License-Identifier: GPL-3.0-or-later
// AllocationCalls: calls that end blocks.
#include <algorithm>

#include "allocation_calls.hpp"
#include "memleax/base/clock.hpp"
#include "walked_call.hpp"

namespace memleax {

namespace {

/// Blocks of a chain that one call ends; the thread stands still while we go along it.
constexpr unsigned kMaxChain = 1U << 24U;

} // namespace

bool AllocationCalls::ends_live_block(const AllocatorEntry& entry, const arch::Registers& regs) {
    const int argument = entry.function->pointer_argument;
    return argument >= 0 &&
           sink_.is_live(handle_address(*entry.function,
                                        arch::argument(regs, static_cast<unsigned>(argument))));
}

void AllocationCalls::on_free(Tid tid, FamilyCalls& calls, const arch::Registers& regs,
                              const AllocatorEntry& entry, bool allocations_are_seen) {
    const AllocatorFunction& function = *entry.function;
    const std::uint64_t value =
        arch::argument(regs, static_cast<unsigned>(function.pointer_argument));
    const RemoteAddr address = handle_address(function, value);
    const bool is_nothing = is_no_handle(function, value);
    const bool live = !is_nothing && sink_.is_live(address);
    CodeAddr caller;
    StackId stack = kNoStack;
    if (check_ && !is_nothing) {
        walk_entry(regs, std::max(backtrace_limit_, 2U));
        caller = backtrace_.frames.size() > 1 ? backtrace_.frames[1].pc() : CodeAddr();
        stack = live ? intern(sink_, backtrace_, backtrace_limit_) : kNoStack;
    }
    // What is live has not been counted yet, whoever ends it.
    if (!live && free_entries_ > 1 && is_free_within_free(calls, regs, entry, address, caller)) {
        return;
    }
    // The user may have named some of the functions only that make these.
    if (live || function.origin.empty()) {
        calls.last_free = {entry.address, arch::sp_after_return(regs), address, true, caller};
    }
    if (function.next_argument >= 0) {
        free_chain(tid, arch::data_address(value),
                   arch::argument(regs, static_cast<unsigned>(function.next_argument)));
        return;
    }
    if (is_nothing || (!live && !function.origin.empty())) {
        return;
    }
    AllocationEvent event{.kind = EventKind::free,
                          .tid = tid,
                          .address = address,
                          .old_address = {},
                          .stack = stack,
                          .time = monotonic_now(),
                          .by = function.family == kMemory ? entry.by : AllocatedBy::no_memory};
    if (!live && !allocations_are_seen) {
        return; // made in the moment before this, perhaps, where another had been freed
    }
    if (!live) {
        event.never_allocated = is_never_allocated(function, address);
        const bool suspect = check_ || sink_.wants_free_stack(address);
        walk_entry(regs, suspect ? std::max(backtrace_limit_, 2U) : 2U);
        if (backtrace_.frames.size() > 1 &&
            is_allocators_own(backtrace_.frames[1].lookup_pc(), entry)) {
            return;
        }
        if (suspect) {
            event.stack = intern(sink_, backtrace_, backtrace_limit_);
        }
    }
    sink_.on_event(event);
}

void AllocationCalls::free_chain(Tid tid, RemoteAddr block, std::uint64_t next_offset) {
    // Brent's: a chain that loops comes back to the block marked last, soon after the mark lies in
    // the loop.
    RemoteAddr mark{};
    unsigned next_mark = 1;
    for (unsigned i = 0; i < kMaxChain && block.value() != 0 && block != mark; ++i) {
        if (i + 1 == next_mark) {
            mark = block;
            next_mark *= 2;
        }
        const auto next = target_.memory().try_read_object<std::uint64_t>(
            RemoteAddr(block.value() + next_offset));
        if (sink_.is_live(block)) {
            sink_.on_event({.kind = EventKind::free,
                            .tid = tid,
                            .address = block,
                            .old_address = {},
                            .time = monotonic_now()});
        }
        block = arch::data_address(next.value_or(0));
    }
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

bool AllocationCalls::is_free_within_free(FamilyCalls& calls, const arch::Registers& regs,
                                          const AllocatorEntry& entry, RemoteAddr block,
                                          CodeAddr caller) {
    const RemoteAddr sp = arch::sp_after_return(regs);
    bool may_be_called = false;
    const auto is_part_of = [&](LastFree& outer) {
        if (!outer.valid || outer.entry == entry.address || sp > outer.sp_after_return) {
            return false;
        }
        if (is_tail_call_of(outer, sp, entry.address, block, caller)) {
            outer.entry = entry.address; // it has the frame now
            return true;
        }
        may_be_called = may_be_called || sp < outer.sp_after_return;
        return false;
    };
    auto& interrupted = calls.interrupted_frees;
    if (is_part_of(calls.last_free) ||
        std::any_of(interrupted.begin(), interrupted.end(), is_part_of)) {
        return true;
    }
    if (!may_be_called) {
        return false;
    }
    unwinder_.unwind_at_entry(regs, kNestingWalkLimit, &backtrace_);
    const auto called = [&](const LastFree& outer) {
        return outer.valid && outer.entry != entry.address && sp < outer.sp_after_return &&
               is_on_stack(outer);
    };
    return called(calls.last_free) || std::any_of(interrupted.begin(), interrupted.end(), called);
}

bool AllocationCalls::is_tail_call_of(const LastFree& outer, RemoteAddr sp, CodeAddr entry,
                                      RemoteAddr block, CodeAddr caller) {
    if (sp != outer.sp_after_return || outer.entry == entry) {
        return false;
    }
    // A tail call, of what the allocator knows of the block; it returns to where its caller would
    // have. Else another call of the same function's, which matters only if it is a second free.
    return caller.value() != 0 && outer.caller.value() != 0
               ? caller == outer.caller
               : block == outer.block || !sink_.wants_free_stack(block);
}

bool AllocationCalls::is_on_stack(const LastFree& outer) const {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const auto& e) { return e.address == outer.entry; });
    if (entry == entries_.end()) {
        return false;
    }
    const AddrRange code{entry->address.value(),
                         entry->address.value() + std::max<std::uint64_t>(entry->size, 1)};
    const auto& frames = backtrace_.frames;
    for (std::size_t i = 1; i < frames.size(); ++i) {
        if (!frames[i].is_return_address()) {
            return false; // interrupted by a signal, whose handler frees for itself
        }
        if (code.contains(frames[i].lookup_pc().value())) {
            return true;
        }
    }
    return false;
}

void AllocationCalls::set_first_mappings(const std::vector<Mapping>& mappings) {
    new_heap_ = {};
    heap_seen_.reset();
    for (const Mapping& mapping : mappings) {
        if (mapping.path == "[heap]") {
            new_heap_ = {mapping.range.end, mapping.range.end};
        }
    }
}

bool AllocationCalls::is_never_allocated(const AllocatorFunction& function, RemoteAddr address) {
    // No allocator gives less than the alignment of a pointer; some give no more, for small blocks.
    constexpr std::uint64_t kLeastAlignment = 8;
    constexpr std::int64_t kLookAgainNs = 1'000'000; // reading the mappings takes a twentieth
    if (!check_ || function.family != kMemory || !returns_.watches_all() ||
        sink_.is_live(address)) {
        return false;
    }
    if (address.value() % kLeastAlignment != 0) {
        return true;
    }
    const MonotonicNs now = monotonic_now();
    if (address.value() >= new_heap_.end &&
        (!heap_seen_ || now.value() - heap_seen_->value() > kLookAgainNs)) {
        heap_seen_ = now;
        const auto mappings = read_maps(target_.pid());
        for (const Mapping& mapping : mappings ? *mappings : std::vector<Mapping>()) {
            if (mapping.path == "[heap]" && mapping.range.end > new_heap_.begin) {
                if (new_heap_.begin == 0) { // there was none
                    new_heap_.begin = mapping.range.begin;
                }
                new_heap_.end = mapping.range.end;
            }
        }
    }
    return new_heap_.contains(address.value());
}

} // namespace memleax
