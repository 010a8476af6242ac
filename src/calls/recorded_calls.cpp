// SPDX-License-Identifier: GPL-3.0-or-later
// CallFollower: calls that are told of later.
#include <span>
#include <vector>

#include "memleax/calls/call_follower.hpp"

namespace memleax {

/// Events of a batch, that are told at once.
class CallFollower::Recording {
  public:
    Recording(CallFollower& follower, std::size_t calls) : follower_(follower) {
        events_.reserve(calls);
        calls_.reserve(calls);
    }

    void add(const RecordedCall& call) {
        switch (call.kind) {
        case RecordedCall::Kind::freed:
        case RecordedCall::Kind::inner_free:
        case RecordedCall::Kind::freed_if_live:
            add_free(call);
            break;
        case RecordedCall::Kind::allocated:
            add_allocated(call);
            break;
        case RecordedCall::Kind::hidden:
            tell(EventKind::hidden_alloc, call).address = call.block;
            break;
        case RecordedCall::Kind::brief:
            tell_alloc(EventKind::brief, call).age = call.age;
            break;
        case RecordedCall::Kind::realloc_began: {
            AllocationEvent& event = tell(EventKind::realloc_begin, call);
            event.old_address = call.block;
            event.stack = call.stack;
            event.by = at(call).by;
            break;
        }
        case RecordedCall::Kind::realloc_left:
            flush();
            tell(EventKind::realloc_failed, call).old_address = call.old_block;
            flush();
            break;
        }
    }

    void flush() {
        std::span<const AllocationEvent> rest(events_);
        while (!rest.empty()) {
            rest = rest.subspan(follower_.account_.events.on_events(rest));
            if (!rest.empty()) {
                free_of_unknown(*calls_[events_.size() - rest.size()], rest.front());
                rest = rest.subspan(1);
            }
        }
        events_.clear();
        calls_.clear();
    }

  private:
    [[nodiscard]] const AllocatorEntry& at(const RecordedCall& call) const {
        return follower_.function(call.function);
    }
    // To be filled in its place: copied from the stack at once, it would wait for its own writes.
    AllocationEvent& tell(EventKind kind, const RecordedCall& call) {
        calls_.push_back(&call);
        AllocationEvent& event = events_.emplace_back();
        event.kind = kind;
        event.tid = call.tid;
        event.time = call.time;
        return event;
    }
    AllocationEvent& tell_alloc(EventKind kind, const RecordedCall& call) {
        AllocationEvent& event = tell(kind, call);
        event.address = call.block;
        event.size = call.size;
        event.stack = call.stack;
        event.by = at(call).by;
        return event;
    }
    void add_free(const RecordedCall& call) {
        AllocationEvent& event = tell(EventKind::free, call);
        event.address = call.block;
        event.stack = call.stack;
        event.by = at(call).by;
        event.if_live = true;
    }

    // All before it has been told.
    void free_of_unknown(const RecordedCall& call, AllocationEvent event) {
        // What an allocator frees within a call is its own affair, unless it is the program's.
        if (call.kind == RecordedCall::Kind::freed_if_live ||
            call.kind == RecordedCall::Kind::inner_free ||
            follower_.is_allocators_own(FrameAddress::return_address(call.caller).lookup_pc(),
                                        at(call).address)) {
            return;
        }
        if (call.stack == kNoStack && follower_.account_.queries.wants_free_stack(call.block)) {
            const FrameAddress frames[] = {FrameAddress::exact(at(call).address),
                                           FrameAddress::return_address(call.caller)};
            event.stack = follower_.account_.stacks.intern(frames, StackEnd::limit);
        }
        event.if_live = false;
        follower_.account_.events.on_event(event);
    }

    void add_allocated(const RecordedCall& call) {
        if (call.block.value() != 0 && call.old_block.value() == 0) {
            tell_alloc(EventKind::alloc, call);
            return;
        }
        PendingCall pending;
        pending.function = at(call).function;
        pending.size = call.size;
        pending.stack = call.stack;
        pending.by = at(call).by;
        pending.old_block = call.old_block;
        flush();
        follower_.finish_call(pending, {.tid = call.tid,
                                        .address = {},
                                        .sp = {},
                                        .result = call.block.value(),
                                        .time = call.time});
    }

    CallFollower& follower_;
    std::vector<AllocationEvent> events_;
    std::vector<const RecordedCall*> calls_; ///< what each is told for
};

void CallFollower::on_recorded(std::span<const RecordedCall> calls) {
    Recording recording(*this, calls.size());
    for (const RecordedCall& call : calls) {
        recording.add(call);
    }
    recording.flush();
}

bool CallFollower::has_pending(Tid tid) const {
    const auto thread = threads_.find(tid);
    return thread != threads_.end() &&
           std::any_of(thread->second.begin(), thread->second.end(),
                       [](const FamilyCalls& calls) { return !calls.pending.empty(); });
}

bool CallFollower::awaits_return(CodeAddr address) const {
    return mappings_.awaits_return(address) ||
           std::any_of(threads_.begin(), threads_.end(), [address](const auto& thread) {
               return std::any_of(
                   thread.second.begin(), thread.second.end(),
                   [address](const FamilyCalls& calls) { return calls.pending.awaits(address); });
           });
}

} // namespace memleax
