// SPDX-License-Identifier: GPL-3.0-or-later
/// What every call that is followed has, from the walk at its entry.
#pragma once

#include <span>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// `backtrace` was walked at the entry, where `regs` are. Without a second frame there is no return
/// address.
inline PendingCall call_at(const AllocatorEntry& entry, const UnwoundStack& backtrace,
                           const arch::Registers& regs) {
    PendingCall call;
    call.function = entry.function;
    call.entry = entry.address;
    call.return_address = backtrace.frames.size() > 1 ? backtrace.frames[1].pc() : CodeAddr();
    call.sp_after_return = arch::sp_after_return(regs);
    return call;
}

/// Its first `limit` frames.
inline StackId intern(EventSink& sink, const UnwoundStack& backtrace, unsigned limit) {
    const bool cut = backtrace.frames.size() > limit;
    return sink.intern(std::span(backtrace.frames).first(cut ? limit : backtrace.frames.size()),
                       cut ? StackEnd::limit : backtrace.end);
}

} // namespace memleax
