// SPDX-License-Identifier: GPL-3.0-or-later
// CallFollower: calls that are told of later.
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/calls/call_follower.hpp"

namespace memleax {

/// Events of a batch, that are told at once, and what they mean for the question what is live.
class CallFollower::Recording {
  public:
    Recording(CallFollower& follower, std::size_t calls) : follower_(follower) {
        events_.reserve(calls);
    }

    void add(const RecordedCall& call) {
        switch (call.kind) {
        case RecordedCall::Kind::freed:
        case RecordedCall::Kind::inner_free:
            add_free(call);
            break;
        case RecordedCall::Kind::freed_if_live:
            if (is_live(call.block)) {
                add_free(call);
            }
            break;
        case RecordedCall::Kind::allocated:
            add_allocated(call);
            break;
        case RecordedCall::Kind::brief:
            tell({.kind = EventKind::brief,
                  .tid = call.tid,
                  .address = call.block,
                  .size = call.size,
                  .old_address = {},
                  .stack = call.stack,
                  .time = call.time,
                  .by = at(call).by,
                  .age = call.age});
            if (const auto known = live_.find(call.block); known != live_.end()) {
                known->second = false;
            }
            break;
        case RecordedCall::Kind::realloc_began:
            tell({.kind = EventKind::realloc_begin,
                  .tid = call.tid,
                  .address = {},
                  .old_address = call.block,
                  .stack = call.stack,
                  .time = call.time,
                  .by = at(call).by});
            live_[call.block] = false;
            break;
        case RecordedCall::Kind::realloc_left:
            flush();
            tell({.kind = EventKind::realloc_failed,
                  .tid = call.tid,
                  .address = {},
                  .old_address = call.old_block,
                  .time = call.time});
            flush();
            break;
        }
    }

    void flush() {
        if (!events_.empty()) {
            follower_.account_.events.on_events(events_);
            events_.clear();
        }
        live_.clear();
    }

  private:
    [[nodiscard]] const AllocatorEntry& at(const RecordedCall& call) const {
        return follower_.function(call.function);
    }
    void tell(const AllocationEvent& event) { events_.push_back(event); }
    [[nodiscard]] bool is_live(RemoteAddr block) {
        const auto known = live_.find(block);
        return known != live_.end() ? known->second : follower_.account_.queries.is_live(block);
    }

    void add_free(const RecordedCall& call) {
        AllocationEvent event{.kind = EventKind::free,
                              .tid = call.tid,
                              .address = call.block,
                              .old_address = {},
                              .time = call.time,
                              .by = at(call).by};
        if (!is_live(call.block)) {
            // What an allocator frees within a call is its own affair, unless it is the program's.
            if (call.kind == RecordedCall::Kind::inner_free ||
                follower_.is_allocators_own(FrameAddress::return_address(call.caller).lookup_pc(),
                                            at(call).address)) {
                return;
            }
            flush();
            if (follower_.account_.queries.wants_free_stack(call.block)) {
                const FrameAddress frames[] = {FrameAddress::exact(at(call).address),
                                               FrameAddress::return_address(call.caller)};
                event.stack = follower_.account_.stacks.intern(frames, StackEnd::limit);
            }
        }
        tell(event);
        live_[call.block] = false;
    }

    void add_allocated(const RecordedCall& call) {
        PendingCall pending;
        pending.function = at(call).function;
        pending.size = call.size;
        pending.stack = call.stack;
        pending.by = at(call).by;
        pending.old_block = call.old_block;
        if (call.block.value() != 0 && call.old_block.value() == 0) {
            tell({.kind = EventKind::alloc,
                  .tid = call.tid,
                  .address = call.block,
                  .size = call.size,
                  .old_address = {},
                  .stack = call.stack,
                  .time = call.time,
                  .by = pending.by});
            live_[call.block] = true;
            return;
        }
        flush();
        follower_.finish_call(pending, {.tid = call.tid,
                                        .address = {},
                                        .sp = {},
                                        .result = call.block.value(),
                                        .time = call.time});
    }

    CallFollower& follower_;
    std::vector<AllocationEvent> events_;
    absl::flat_hash_map<RemoteAddr, bool> live_; ///< by the events that are not told yet
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
    return std::any_of(threads_.begin(), threads_.end(), [address](const auto& thread) {
        return std::any_of(
            thread.second.begin(), thread.second.end(),
            [address](const FamilyCalls& calls) { return calls.pending.awaits(address); });
    });
}

} // namespace memleax
