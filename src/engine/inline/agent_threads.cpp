// SPDX-License-Identifier: GPL-3.0-or-later
#include "agent_threads.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "arch.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/engine/watch.hpp"

namespace memleax {

using agent::Entry;
using agent::kKinds;
using agent::Progress;
using agent::Thread;

std::optional<std::uint32_t> AgentThreads::find(Tid tid) const {
    const auto known = by_tid_.find(tid);
    return known != by_tid_.end() ? std::optional(known->second) : std::nullopt;
}

bool AgentThreads::put_in_table(std::uint32_t index, std::uint64_t pointer) {
    for (std::uint32_t i = 0; i < agent::kMostProbes; ++i) {
        const std::uint32_t slot = (agent::thread_slot(pointer) + i) % agent::kThreadSlots;
        if (table_[slot] == 0 || table_[slot] == agent::kNoThread) {
            table_[slot] = static_cast<std::uint16_t>(index + 1);
            memory_.write_thread_slot(slot, table_[slot]);
            return true;
        }
    }
    return false;
}

std::optional<std::uint32_t> AgentThreads::get(Tid tid, std::uint64_t pointer, AddrRange stack) {
    if (const auto known = find(tid)) {
        const Known& thread = known_[*known];
        return thread.pointer == pointer && !thread.is_shared && !thread.is_broken ? known
                                                                                   : std::nullopt;
    }
    if (pointer == 0 || by_pointer_.contains(pointer)) { // a child by vfork's: it has its parent's
        return std::nullopt;
    }
    const auto index = free_.empty() ? static_cast<std::uint32_t>(known_.size()) : free_.back();
    if (index == agent::kMaxThreads || (is_full_ && free_.empty())) {
        return std::nullopt;
    }
    if (const auto room = memory_.make_room_for(index, tid); !room) {
        log_info("no more than {} threads are watched without stops: {}", known_.size(),
                 room.error().message());
        is_full_ = true;
        return std::nullopt;
    }
    if (free_.empty()) {
        known_.emplace_back();
        seen_.emplace_back();
        free_.push_back(index);
    }
    Known* const free = &known_[index];
    // The ring goes on where the last one's thread ended.
    Thread written;
    written.pointer = pointer;
    written.stack_begin = stack.begin;
    written.stack_end = stack.end;
    written.freed_parts = free->freed_parts;
    written.claimed_parts = free->claimed_parts;
    written.tid = tid.value();
    Progress progress;
    progress.head = free->read;
    memory_.write_thread(index, written, progress);
    if (!put_in_table(index, pointer)) {
        return std::nullopt;
    }
    free_.pop_back();
    memory_.set_ready(index, true);
    seen_[index] = progress;
    Known known;
    known.tid = tid;
    known.pointer = pointer;
    known.stack = stack;
    known.read = known.read_before = free->read;
    known.freed_parts = free->freed_parts;
    known.claimed_parts = free->claimed_parts;
    *free = known;
    by_tid_[tid] = index;
    by_pointer_[pointer] = index;
    return index;
}

void AgentThreads::get_early(Tid tid, std::uint64_t pointer, AddrRange stack) {
    constexpr std::size_t kMostEarly = agent::kWideThreads / 2; // the rest is for those that call
    if (known_.size() - free_.size() < kMostEarly) {
        (void)get(tid, pointer, stack);
    }
}

// Nobody runs that has this pointer.
void AgentThreads::release(std::uint32_t index) {
    Known& known = known_[index];
    memory_.set_ready(index, false);
    for (std::uint32_t i = 0; i < agent::kMostProbes; ++i) {
        const std::uint32_t slot = (agent::thread_slot(known.pointer) + i) % agent::kThreadSlots;
        if (table_[slot] == index + 1) {
            table_[slot] = agent::kNoThread;
            memory_.write_thread_slot(slot, agent::kNoThread);
        }
    }
    calls_of_gone_ += seen_[index].calls;
    seen_[index].calls = 0;
    by_tid_.erase(known.tid);
    by_pointer_.erase(known.pointer);
    free_.push_back(index);
    known.tid = Tid();
    known.pointer = 0;
}

void AgentThreads::set_stack(std::uint32_t index, AddrRange stack) {
    known_[index].stack = stack;
    memory_.set_stack(index, stack);
}

void AgentThreads::on_birth(Tid tid, std::uint64_t pointer) {
    if (pointer == 0 || find(tid)) {
        return;
    }
    if (const auto same = by_pointer_.find(pointer);
        same != by_pointer_.end() && !known_[same->second].is_shared) {
        known_[same->second].is_shared = true;
        memory_.set_ready(same->second, false);
    }
}

std::optional<Tid> AgentThreads::find_by_pointer(std::uint64_t pointer) const {
    const auto known = by_pointer_.find(pointer);
    return known != by_pointer_.end() && !known_[known->second].is_shared
               ? std::optional(known_[known->second].tid)
               : std::nullopt;
}

void AgentThreads::on_thread_gone(Tid tid) {
    if (const auto index = find(tid)) {
        release(*index);
    }
}

void AgentThreads::tick(MonotonicNs now) {
    if (now.value() - ticks_[tick_].value() < kShortestTickNs) {
        return;
    }
    if (last_time_.value() == 0) {
        last_time_ = now; // of what is recorded before the target knows of a tick
    }
    ticks_[++tick_] = now;
    memory_.set_tick(tick_);
}

MonotonicNs AgentThreads::time_of(std::uint8_t tick) const {
    return ticks_[tick];
}

void AgentThreads::give_up(std::uint32_t index) {
    Known& known = known_[index];
    if (!known.is_broken) {
        known.is_broken = true;
        memory_.set_trap(index, true);
        log_warning(
            "thread {} has written into memory of ours: what is said of its blocks is wrong, "
            "and from now on it stops at each call",
            known.tid.value());
    }
}

// By whole parts: what is recorded in the rest of the last one cannot be changed either.
void AgentThreads::claim(std::uint32_t index, std::uint64_t head) {
    Known& known = known_[index];
    const auto claimed =
        static_cast<std::uint8_t>((head + agent::kRingPart - 1) / agent::kRingPart);
    if (claimed != known.claimed_parts) {
        known.claimed_parts = claimed;
        memory_.set_claimed_parts(index, claimed);
    }
    // What is read from here on is read after that was written; as the agent has it the other way
    // round. (std::atomic_thread_fence is no part of what ThreadSanitizer knows.)
    __sync_synchronize();
}

void AgentThreads::read_ring(std::uint32_t index, std::uint64_t head) {
    Known& known = known_[index];
    if (known.is_broken || head == known.read) {
        return;
    }
    const std::uint64_t count = head - known.read;
    if (count > memory_.ring_entries(index)) {
        give_up(index);
        return;
    }
    claim(index, head);
    buffer_.resize(count);
    if (!memory_.read_entries(index, known.read, buffer_)) {
        return; // the process ends
    }
    for (const Entry& entry : buffer_) {
        waiting_.push_back({index, entry});
    }
    known.read = head;
    const auto freed = static_cast<std::uint8_t>(head / agent::kRingPart);
    if (freed != known.freed_parts) {
        known.freed_parts = freed;
        memory_.set_freed_parts(index, freed);
    }
}

void AgentThreads::fetch() {
    before_ = {tickets_, fetched_at_};
    fetched_at_ = monotonic_now();
    // In this order: what came before an entry with one of these tickets is in its ring by now.
    if (!memory_.read_next_ticket(&tickets_) || known_.empty() ||
        !memory_.read_progress(0, seen_)) {
        return;
    }
    // Each thread's are in order.
    std::vector<std::size_t> ends{waiting_.size()};
    for (std::uint32_t index = 0; index < known_.size(); ++index) {
        read_ring(index, seen_[index].head);
        if (waiting_.size() != ends.back()) {
            ends.push_back(waiting_.size());
        }
    }
    merge(std::move(ends));
}

// Two neighbours at a time, as merge sort does: of a thousand threads each entry is moved ten
// times.
void AgentThreads::merge(std::vector<std::size_t> ends) {
    const auto at = [this](std::size_t n) {
        return waiting_.begin() + static_cast<std::ptrdiff_t>(n);
    };
    while (ends.size() > 1) {
        std::vector<std::size_t> merged;
        std::size_t begin = 0;
        for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
            std::inplace_merge(at(begin), at(ends[i]), at(ends[i + 1]), comes_before);
            begin = ends[i + 1];
            merged.push_back(begin);
        }
        if (ends.size() % 2 != 0) {
            merged.push_back(ends.back());
        }
        ends = std::move(merged);
    }
}

std::int64_t AgentThreads::time_to_fill() {
    double fullest = 0;
    for (std::uint32_t index = 0; index < known_.size(); ++index) {
        Known& known = known_[index];
        const auto count = static_cast<double>(known.read - known.read_before);
        known.read_before = known.read;
        fullest = std::max(fullest, count / memory_.ring_entries(index));
    }
    const auto took = static_cast<double>(fetched_at_.value() - paced_at_.value());
    paced_at_ = fetched_at_;
    return fullest == 0 ? Watch::kAnyTime : static_cast<std::int64_t>(took / fullest);
}

const std::vector<RecordedCall>& AgentThreads::take() {
    delivered_.clear();
    const bool too_many = waiting_.size() > kMostWaiting;
    const auto later = too_many ? waiting_.end()
                                : std::lower_bound(waiting_.begin(), waiting_.end(), tickets_,
                                                   [](const Recorded& each, std::uint64_t ticket) {
                                                       return each.entry.ticket < ticket;
                                                   });
    std::for_each(waiting_.begin(), later, [this](const Recorded& each) { deliver(each); });
    waiting_.erase(waiting_.begin(), later);

    delivered_tickets_.mark(tickets_, fetched_at_);
    return delivered_;
}

void AgentThreads::deliver(const Recorded& recorded) {
    const Entry& entry = recorded.entry;
    delivered_tickets_.add(entry.ticket);
    Known& known = known_[recorded.thread];
    const bool has_stack = entry.kind == Entry::Kind::allocated ||
                           entry.kind == Entry::Kind::brief ||
                           entry.kind == Entry::Kind::realloc_began ||
                           (entry.kind == Entry::Kind::freed && entry.stack != agent::kNoStackId);
    if (entry.function >= functions_ || static_cast<std::uint8_t>(entry.kind) >= kKinds ||
        (has_stack && entry.stack > last_stack_.value())) {
        give_up(recorded.thread);
        return;
    }
    last_time_ = std::max(last_time_, time_of(entry.tick));
    if (entry.ticket >= before_.tickets) { // it was numbered since
        last_time_ = std::max(last_time_, before_.fetched_at);
    }
    // In its place: copied from the stack at once, it would wait for its own writes.
    RecordedCall& call = delivered_.emplace_back();
    call.tid = known.tid;
    call.function = entry.function;
    call.block = arch::data_address(entry.address);
    call.time = last_time_;
    switch (entry.kind) {
    case Entry::Kind::freed:
        call.kind = RecordedCall::Kind::freed;
        call.caller = CodeAddr(entry.size_or_caller);
        call.stack = entry.stack != agent::kNoStackId ? StackId(entry.stack) : kNoStack;
        break;
    case Entry::Kind::freed_if_live:
        call.kind = RecordedCall::Kind::freed_if_live;
        break;
    case Entry::Kind::hidden:
        call.kind = RecordedCall::Kind::hidden;
        break;
    case Entry::Kind::brief:
        call.kind = RecordedCall::Kind::brief;
        call.size = entry.size_or_caller;
        call.stack = StackId(entry.stack);
        call.age = std::max<std::int64_t>(
            time_of(entry.end_tick).value() - time_of(entry.tick).value(), 0);
        break;
    case Entry::Kind::inner_free:
        call.kind = RecordedCall::Kind::inner_free;
        break;
    case Entry::Kind::allocated:
        call.kind = RecordedCall::Kind::allocated;
        call.size = entry.size_or_caller;
        call.stack = StackId(entry.stack);
        if (known.realloc) {
            call.old_block = *known.realloc;
            known.realloc.reset();
        }
        break;
    case Entry::Kind::realloc_began:
        call.kind = RecordedCall::Kind::realloc_began;
        call.size = entry.size_or_caller;
        call.stack = StackId(entry.stack);
        if (known.realloc) { // it was left by siglongjmp
            RecordedCall left = call;
            left.kind = RecordedCall::Kind::realloc_left;
            left.old_block = *known.realloc;
            delivered_.insert(std::prev(delivered_.end()), left); // and `call` is another
        }
        known.realloc = arch::data_address(entry.address);
        known.realloc_function = entry.function;
        break;
    }
}

Progress AgentThreads::now(std::uint32_t index) const {
    Progress now;
    return memory_.read_progress(index, {&now, 1}) ? now : Progress();
}

std::optional<RecordedCall> AgentThreads::leave_call(std::uint32_t index, MonotonicNs now) {
    Known& known = known_[index];
    memory_.set_inside(index, 0);
    memory_.set_interrupted(index, false);
    if (!known.realloc) {
        return std::nullopt;
    }
    RecordedCall left;
    left.kind = RecordedCall::Kind::realloc_left;
    left.tid = known.tid;
    left.function = known.realloc_function;
    left.old_block = *known.realloc;
    left.time = now;
    known.realloc.reset();
    return left;
}

std::uint64_t AgentThreads::calls() const {
    std::uint64_t sum = calls_of_gone_;
    for (std::size_t index = 0; index < known_.size(); ++index) {
        sum += known_[index].tid.value() != 0 ? seen_[index].calls : 0;
    }
    return sum;
}

void AgentThreads::forget() {
    calls_of_gone_ = calls();
    known_.clear();
    by_tid_.clear();
    by_pointer_.clear();
    free_.clear();
    is_full_ = false;
    table_ = {};
    seen_.clear();
    waiting_.clear();
    tickets_ = 0;
    delivered_tickets_.forget();
}

} // namespace memleax
