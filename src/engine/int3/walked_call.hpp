// SPDX-License-Identifier: GPL-3.0-or-later
/// What every call that is followed has, from the walk at its entry.
#pragma once

#include <span>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/nesting.hpp"
#include "memleax/calls/pending_calls.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// Of a thread that is stopped at a call's entry, with these registers.
class StoppedWalker final : public EntryWalker {
  public:
    StoppedWalker(Unwinder& unwinder, const arch::Registers& regs, UnwoundStack& stack)
        : unwinder_(unwinder), regs_(regs), stack_(stack) {}
    const UnwoundStack& walk(unsigned limit) override {
        unwinder_.unwind_at_entry(regs_, limit, &stack_);
        return stack_;
    }

  private:
    Unwinder& unwinder_;
    const arch::Registers& regs_;
    UnwoundStack& stack_;
};

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
