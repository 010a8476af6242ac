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
        for (const RecordedCall& call : calls) {
            if (is_free(call)) {
                freed_.push_back(call.block);
            }
        }
        were_live_.resize(freed_.size());
        follower_.account_.queries.are_live(freed_, were_live_);
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
        account_is_as_before_ = false; // or will not be after what comes now
        live_.clear();
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
    /// The block of the next free.
    [[nodiscard]] bool is_live() {
        const std::size_t n = next_free_;
        const auto known = live_.find(freed_[n]);
        if (known != live_.end()) {
            return known->second;
        }
        return account_is_as_before_ ? were_live_[n] != 0
                                     : follower_.account_.queries.is_live(freed_[n]);
    }

    void add_free(const RecordedCall& call) {
        const bool live = is_live();
        ++next_free_;
        if (call.kind == RecordedCall::Kind::freed_if_live && !live) {
            return;
        }
        AllocationEvent event{.kind = EventKind::free,
                              .tid = call.tid,
                              .address = call.block,
                              .old_address = {},
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
    std::vector<RemoteAddr> freed_; ///< by all the frees of the batch, in their order
    std::vector<std::uint8_t> were_live_;
    std::size_t next_free_ = 0;
    bool account_is_as_before_ = true;           ///< as when that was asked
    absl::flat_hash_map<RemoteAddr, bool> live_; ///< by the events that are not told yet
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
    return std::any_of(threads_.begin(), threads_.end(), [address](const auto& thread) {
        return std::any_of(
            thread.second.begin(), thread.second.end(),
            [address](const FamilyCalls& calls) { return calls.pending.awaits(address); });
    });
}

} // namespace memleax
