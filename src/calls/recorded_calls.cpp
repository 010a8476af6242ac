// SPDX-License-Identifier: GPL-3.0-or-later
// CallFollower: calls that are told of later.
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/calls/call_follower.hpp"

namespace memleax {

/// Events of a batch, that are told at once, and what they mean for the question what is live.
class CallFollower::Recording {
  public:
    Recording(CallFollower& follower, std::span<const RecordedCall> calls) : follower_(follower) {
        events_.reserve(calls.size());
        // Asked all at once: each question by itself is a lock.
        std::vector<RemoteAddr> freed;
        for (const RecordedCall& call : calls) {
            if (is_free(call)) {
                freed.push_back(call.block);
            }
        }
        std::vector<std::uint8_t> answers(freed.size());
        follower_.account_.queries.are_live(freed, answers);
        for (std::size_t i = 0; i < freed.size(); ++i) {
            live_[freed[i]] = answers[i] != 0;
        }
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
            tell({.kind = EventKind::hidden_alloc,
                  .tid = call.tid,
                  .address = call.block,
                  .old_address = {},
                  .time = call.time});
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
            note(call.block, false);
            break;
        case RecordedCall::Kind::realloc_began:
            tell({.kind = EventKind::realloc_begin,
                  .tid = call.tid,
                  .address = {},
                  .old_address = call.block,
                  .stack = call.stack,
                  .time = call.time,
                  .by = at(call).by});
            note(call.block, false);
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
        has_all_frees_ = false;
    }

  private:
    [[nodiscard]] const AllocatorEntry& at(const RecordedCall& call) const {
        return follower_.function(call.function);
    }
    void tell(const AllocationEvent& event) { events_.push_back(event); }
    static bool is_free(const RecordedCall& call) {
        return call.kind == RecordedCall::Kind::freed ||
               call.kind == RecordedCall::Kind::inner_free ||
               call.kind == RecordedCall::Kind::freed_if_live;
    }
    [[nodiscard]] bool is_live(RemoteAddr block) const {
        const auto known = live_.find(block);
        return known != live_.end() ? known->second : follower_.account_.queries.is_live(block);
    }
    void note(RemoteAddr block, bool live) {
        if (!has_all_frees_) {
            live_[block] = live;
        } else if (const auto known = live_.find(block); known != live_.end()) {
            known->second = live; // else nobody will ask
        }
    }

    void add_free(const RecordedCall& call) {
        const bool live = is_live(call.block);
        if (call.kind == RecordedCall::Kind::freed_if_live && !live) {
            return;
        }
        AllocationEvent event{.kind = EventKind::free,
                              .tid = call.tid,
                              .address = call.block,
                              .old_address = {},
                              .stack = call.stack,
                              .time = call.time,
                              .by = at(call).by};
        if (!live) {
            // What an allocator frees within a call is its own affair, unless it is the program's.
            if (call.kind == RecordedCall::Kind::inner_free ||
                follower_.is_allocators_own(FrameAddress::return_address(call.caller).lookup_pc(),
                                            at(call).address)) {
                return;
            }
            flush();
            if (call.stack == kNoStack && follower_.account_.queries.wants_free_stack(call.block)) {
                const FrameAddress frames[] = {FrameAddress::exact(at(call).address),
                                               FrameAddress::return_address(call.caller)};
                event.stack = follower_.account_.stacks.intern(frames, StackEnd::limit);
            }
        }
        tell(event);
        note(call.block, false);
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
            note(call.block, true);
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
    /// Of the blocks that the batch frees (after a flush, of those that it has dealt with), and of
    /// no others: are they live, with the events that are not told yet?
    absl::flat_hash_map<RemoteAddr, bool> live_;
    bool has_all_frees_ = true;
};

void CallFollower::on_recorded(std::span<const RecordedCall> calls) {
    Recording recording(*this, calls);
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
