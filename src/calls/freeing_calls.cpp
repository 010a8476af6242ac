// SPDX-License-Identifier: GPL-3.0-or-later
// CallFollower: calls that end blocks.
#include "arch.hpp"
#include "memleax/calls/call_follower.hpp"
#include "nesting.hpp"

namespace memleax {

namespace {

/// Blocks of a chain that one call ends; the thread stands still while we go along it.
constexpr unsigned kMaxChain = 1U << 24U;

} // namespace

void CallFollower::on_free(FamilyCalls& calls, const Call& call, Follow follow) {
    const AllocatorFunction& function = call.function();
    const std::uint64_t value = call.argument(function.pointer_argument);
    const RemoteAddr address = call.block();
    const bool is_nothing = is_no_handle(function, value);
    const bool live = !is_nothing && account_.queries.is_live(address);
    FreeingCall freeing{call.at.address,
                        {call.at.address.value(),
                         call.at.address.value() + std::max<std::uint64_t>(call.at.size, 1)},
                        call.entry.sp_after_return,
                        address,
                        CodeAddr()};
    StackId stack = kNoStack;
    if (options_.check && !is_nothing) {
        const UnwoundStack& walked = call.site.walk(walk_limit());
        freeing.caller = return_address(walked);
        stack = live ? intern(call.site.to_record(walked)) : kNoStack;
    }
    // What is live has not been counted yet, whoever ends it.
    if (!live && functions_that_free_ > 1 &&
        calls.frees.is_part(freeing, call.site, account_.queries)) {
        return;
    }
    // The user may have named some of the functions only that make these.
    if (live || function.origin.empty()) {
        calls.frees.note(freeing);
    }
    if (function.next_argument >= 0) {
        free_chain(call.entry, arch::data_address(value), call.argument(function.next_argument));
        return;
    }
    if (is_nothing || (!live && !function.origin.empty())) {
        return;
    }
    const AllocationEvent event{.kind = EventKind::free,
                                .tid = call.entry.tid,
                                .address = address,
                                .old_address = {},
                                .stack = stack,
                                .time = call.entry.time,
                                .by = function.family == kMemory ? call.at.by
                                                                 : AllocatedBy::no_memory};
    if (live) {
        account_.events.on_event(event);
    } else if (follow == Follow::to_return) {
        // Else it was made a moment ago, perhaps, where another had been freed.
        if (const auto unknown = unknown_free(call, event)) {
            account_.events.on_event(*unknown);
        }
    }
}

std::optional<AllocationEvent> CallFollower::unknown_free(const Call& call, AllocationEvent event) {
    event.never_allocated = is_never_allocated(call, event.address);
    const bool suspect = options_.check || account_.queries.wants_free_stack(event.address);
    const UnwoundStack& stack = call.site.walk(suspect ? walk_limit() : 2U);
    if (stack.frames.size() > 1 &&
        is_allocators_own(stack.frames[1].lookup_pc(), call.at.address)) {
        return std::nullopt;
    }
    if (suspect) {
        event.stack = intern(call.site.to_record(stack));
    }
    return event;
}

void CallFollower::free_chain(const CallEntry& call, RemoteAddr block, std::uint64_t next_offset) {
    // Brent's: a chain that loops comes back to the block marked last, soon after the mark lies in
    // the loop.
    RemoteAddr mark{};
    unsigned next_mark = 1;
    for (unsigned i = 0; i < kMaxChain && block.value() != 0 && block != mark; ++i) {
        if (i + 1 == next_mark) {
            mark = block;
            next_mark *= 2;
        }
        const auto next = environment_.memory().try_read_object<std::uint64_t>(
            RemoteAddr(block.value() + next_offset));
        if (account_.queries.is_live(block)) {
            account_.events.on_event({.kind = EventKind::free,
                                      .tid = call.tid,
                                      .address = block,
                                      .old_address = {},
                                      .time = call.time});
        }
        block = arch::data_address(next.value_or(0));
    }
}

bool CallFollower::is_allocators_own(CodeAddr caller, CodeAddr entry) {
    const auto [known, is_new] = own_callers_.try_emplace(caller, false);
    if (is_new && environment_.in_same_module(caller, entry)) {
        // In a program of one piece only the names tell its code and the allocator's apart.
        known->second =
            !environment_.in_main_module(caller) || environment_.frees_cached_blocks(caller);
    }
    return known->second;
}

bool CallFollower::is_never_allocated(const Call& call, RemoteAddr address) {
    // No allocator gives less than the alignment of a pointer; some give no more, for small blocks.
    constexpr std::uint64_t kLeastAlignment = 8;
    if (!options_.check || call.function().family != kMemory || !call.site.watches_all_returns() ||
        account_.queries.is_live(address)) {
        return false;
    }
    return address.value() % kLeastAlignment != 0 ||
           environment_.in_new_heap(address, call.entry.time);
}

} // namespace memleax
