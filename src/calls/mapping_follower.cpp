// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/calls/mapping_follower.hpp"

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "nesting.hpp"

namespace memleax {

namespace {

std::uint64_t page_size() {
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::uint64_t whole_pages(std::uint64_t bytes, std::uint64_t page = page_size()) {
    return (bytes + page - 1) & ~(page - 1);
}

/// A mapping's length, as the kernel takes it (mmap(2), "Huge page (Huge TLB) mappings").
std::uint64_t mapped_length(std::uint64_t length, std::uint64_t flags) {
    constexpr unsigned kDefaultShift = 21; // 2 MiB, unless the kernel was told otherwise
    constexpr unsigned kShiftMask = 0x3f;  // MAP_HUGE_MASK
    if ((flags & MAP_HUGETLB) == 0) {
        return whole_pages(length);
    }
    const auto shift = static_cast<unsigned>(flags >> MAP_HUGE_SHIFT) & kShiftMask;
    return whole_pages(length, std::uint64_t{1} << (shift == 0 ? kDefaultShift : shift));
}

/// Empty if the kernel would refuse it.
AddrRange range_at(std::uint64_t begin, std::uint64_t length) {
    const bool is_sane = begin % page_size() == 0 && length != 0 && begin + length > begin;
    return is_sane ? AddrRange{begin, begin + length} : AddrRange{};
}

/// Are the pages' contents gone after this advice (madvise(2))? What may be swapped out stays.
bool gives_pages_back(std::uint64_t advice) {
    constexpr int kDontNeedLocked = 24; // MADV_DONTNEED_LOCKED, Linux 5.18
    constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
    switch (static_cast<int>(advice)) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case kDontNeedLocked:
    case kGuardInstall:
        return true;
    default:
        return false;
    }
}

/// Of a call that has come to its end.
MappingEvent event_of(Tid tid, const PendingCall& call, MappingEvent::Step step, MonotonicNs time) {
    MappingEvent event;
    event.step = step;
    event.call = call.function->mapping;
    event.kind = call.kind;
    event.tid = tid;
    event.stack = call.stack;
    event.time = time;
    return event;
}

bool is_error(MappingCall call, std::uint64_t result) {
    switch (call) {
    case MappingCall::munmap:
    case MappingCall::brk:
    case MappingCall::shmdt:
    case MappingCall::madvise:
        return static_cast<std::int32_t>(result) != 0; // an int
    default:
        return result == ~std::uint64_t{0}; // MAP_FAILED, (void*)-1
    }
}

} // namespace

MappingFollower::MappingFollower(CallEnvironment& environment, AccountAccess account,
                                 const TrackedMemory& tracked, unsigned backtrace_limit)
    : environment_(environment), account_(account), backtrace_limit_(backtrace_limit),
      tracked_(tracked) {}

void MappingFollower::add_owner(const AllocatorEntry& entry) {
    const AllocatorFunction& function = *entry.function;
    if (!tracked_.any_mapped() || function.family != kMemory) {
        return;
    }
    const bool starts_threads = function.mapping == MappingCall::thread_start;
    if (!starts_threads && function.mapping != MappingCall::none) {
        return;
    }
    owners_.push_back({{entry.address.value(), entry.address.value() + entry.size},
                       starts_threads ? MemoryKind::thread_stack : MemoryKind::allocator});
    const bool is_allocator = !starts_threads && function.origin.empty() && !entry.in_c_library &&
                              !environment_.in_main_module(entry.address);
    if (is_allocator && !is_allocators_module(entry.address)) {
        allocators_.push_back(entry.address);
    }
}

void MappingFollower::forget_owners(AddrRange range) {
    std::erase_if(owners_,
                  [&](const OwnersCode& each) { return range.contains(each.range.begin); });
    std::erase_if(allocators_, [&](CodeAddr each) { return range.contains(each); });
}

bool MappingFollower::is_allocators_module(CodeAddr code) {
    return std::any_of(allocators_.begin(), allocators_.end(),
                       [&](CodeAddr each) { return environment_.in_same_module(code, each); });
}

bool MappingFollower::awaits_return(CodeAddr address) const {
    return std::any_of(pending_.begin(), pending_.end(),
                       [address](const auto& thread) { return thread.second.awaits(address); });
}

void MappingFollower::on_signal(Tid tid) {
    if (const auto it = pending_.find(tid); it != pending_.end()) {
        it->second.signal_delivered();
    }
}

void MappingFollower::on_thread_gone(Tid tid) {
    if (const auto it = pending_.find(tid); it != pending_.end()) {
        while (!it->second.empty()) {
            fail(tid, it->second.pop(), monotonic_now());
        }
        pending_.erase(it);
    }
}

void MappingFollower::reset() {
    pending_.clear();
    owners_.clear();
    allocators_.clear();
}

MemoryKind MappingFollower::kind_of(const AllocatorEntry& at, const UnwoundStack& stack,
                                    bool within_allocator) {
    const auto& frames = stack.frames;
    for (auto frame = frames.begin() + 1; frame < frames.end(); ++frame) {
        const std::uint64_t pc = frame->lookup_pc().value();
        for (const OwnersCode& owner : owners_) {
            if (owner.range.contains(pc)) {
                return owner.kind;
            }
        }
    }
    // Where malloc's code is not on the stack: it has jumped on, or this is a thread of its own.
    const CodeAddr caller = frames.size() > 1 ? frames[1].lookup_pc() : CodeAddr();
    if (within_allocator ||
        (!environment_.in_same_module(caller, at.address) && is_allocators_module(caller))) {
        return MemoryKind::allocator;
    }
    switch (at.function->mapping) {
    case MappingCall::brk:
    case MappingCall::sbrk:
        return MemoryKind::brk;
    case MappingCall::shmat:
    case MappingCall::shmdt:
        return MemoryKind::shm;
    default:
        return MemoryKind::mmap;
    }
}

bool MappingFollower::follows(MappingCall call) const {
    return tracked_.mmap || (call != MappingCall::mmap && call != MappingCall::mremap);
}

/// glibc's brk(2) leaves the break there; no other C library's brk does anything.
std::uint64_t MappingFollower::read_break(CodeAddr entry) {
    const auto variable = environment_.find_variable(entry, "__curbrk");
    return variable ? environment_.memory().try_read_object<std::uint64_t>(*variable).value_or(0)
                    : 0;
}

MappingEvent MappingFollower::event_at_entry(const CallArguments& arguments, PendingCall& call) {
    const auto argument = [&arguments](std::size_t n) { return arguments.at(n); };
    MappingEvent event;
    event.step = MappingEvent::Step::called;
    event.call = call.function->mapping;
    switch (event.call) {
    case MappingCall::mmap: // address, length, protection, flags
        call.size = mapped_length(argument(1), argument(3));
        if ((argument(3) & MAP_FIXED) != 0 && (argument(3) & MAP_FIXED_NOREPLACE) == 0) {
            event.unmapped[0] = range_at(argument(0), call.size);
        }
        break;
    case MappingCall::munmap: // address, length
        event.unmapped[0] = range_at(argument(0), whole_pages(argument(1)));
        break;
    case MappingCall::mremap: { // address, length, new length, flags, new address
        call.size = whole_pages(argument(2));
        const std::uint64_t flags = argument(3);
        // length 0: a second mapping of the same (mremap(2))
        ((flags & MREMAP_DONTUNMAP) == 0 ? event.unmapped[0] : event.emptied) =
            range_at(argument(0), whole_pages(argument(1)));
        if ((flags & MREMAP_FIXED) != 0) {
            event.unmapped[1] = range_at(argument(4), call.size);
        }
        break;
    }
    case MappingCall::brk: // new break
        call.old_break = RemoteAddr(read_break(call.entry));
        call.new_break = RemoteAddr(argument(0));
        break;
    case MappingCall::sbrk: // increment
        call.size = argument(0);
        break;
    case MappingCall::shmdt: // address
        event.detached = RemoteAddr(argument(0));
        if (tracked_.still_there()) {
            event.emptied = environment_.mapping_at(event.detached);
        }
        break;
    case MappingCall::madvise: // address, length, advice
        event.emptied = range_at(argument(0), whole_pages(argument(1)));
        break;
    case MappingCall::shmat: // identifier, address, flags
    case MappingCall::none:
    case MappingCall::thread_start:
        break;
    }
    return event;
}

void MappingFollower::on_entry(const CallEntry& call, const AllocatorEntry& at, CallSite& site,
                               bool within_allocator) {
    if (at.function->mapping == MappingCall::madvise && !gives_pages_back(call.arguments.at(2))) {
        return;
    }
    PendingCalls& calls = pending_[call.tid];
    const bool nested = is_nested(calls, at.address, call.sp_after_return, site, &abandoned_);
    flush_abandoned(call.tid, call.time);
    if (nested) {
        return;
    }
    const UnwoundStack& stack = site.walk(std::max(backtrace_limit_, 2U));
    if (stack.frames.size() < 2) {
        return; // an unreadable stack: the thread is about to die of it
    }
    PendingCall begun;
    begun.function = at.function;
    begun.entry = at.address;
    begun.return_address = return_address(stack);
    begun.sp_after_return = call.sp_after_return;
    begun.kind = kind_of(at, stack, within_allocator);
    MappingEvent event = event_at_entry(call.arguments, begun);
    const bool may_end =
        event.unmapped[0].size() + event.unmapped[1].size() + event.emptied.size() != 0;
    const bool is_nothing =
        !may_end && (!follows(event.call) || event.call == MappingCall::madvise ||
                     (event.call == MappingCall::sbrk && begun.size == 0));
    if (is_nothing) {
        return;
    }
    const bool is_followed = !site.watch_return(begun.return_address).has_value();
    if (!is_followed && !may_end && event.detached.value() == 0) {
        return; // what it maps is found in the end, by nobody's name
    }
    if (event.call != MappingCall::madvise) { // which no account has by its stack
        begun.stack = intern_first(account_.stacks, site.to_record(stack), backtrace_limit_);
    }
    event.tid = call.tid;
    event.kind = begun.kind;
    event.time = call.time;
    if (tracked_.still_there() &&
        (may_end || event.call == MappingCall::brk || event.call == MappingCall::sbrk)) {
        environment_.before_pages_go();
    }
    account_.events.on_mapping(event);
    if (is_followed) {
        calls.push(begun);
        return;
    }
    // Unmapping hardly ever fails.
    event.step = MappingEvent::Step::succeeded;
    event.stack = begun.stack;
    for (AddrRange& range : event.unmapped) {
        range = {};
    }
    event.emptied = {};
    account_.events.on_mapping(event);
}

void MappingFollower::finish_calls(const CallReturn& end) {
    const auto it = pending_.find(end.tid);
    if (it == pending_.end()) {
        return;
    }
    while (const auto call = it->second.on_return(end.address, end.sp, &abandoned_)) {
        flush_abandoned(end.tid, end.time);
        finish(*call, end);
    }
    flush_abandoned(end.tid, end.time);
}

void MappingFollower::finish(const PendingCall& call, const CallReturn& end) {
    const std::uint64_t result = end.result;
    if (is_error(call.function->mapping, result)) {
        fail(end.tid, call, end.time);
        return;
    }
    MappingEvent event = event_of(end.tid, call, MappingEvent::Step::succeeded, end.time);
    const auto moves_break = [&event](std::uint64_t from, std::uint64_t to) {
        if (from < to) {
            event.added = {from, to};
        } else if (to < from) {
            event.unmapped[0] = {to, from};
        }
    };
    switch (event.call) {
    case MappingCall::mmap:
    case MappingCall::mremap:
        if (follows(event.call)) {
            event.added = {result, result + call.size};
        }
        break;
    case MappingCall::brk:
        if (call.old_break.value() != 0) {
            moves_break(call.old_break.value(), call.new_break.value());
        }
        break;
    case MappingCall::sbrk:
        moves_break(result, result + call.size);
        break;
    case MappingCall::shmat:
        event.added = environment_.mapping_at(RemoteAddr(result));
        break;
    default:
        break;
    }
    account_.events.on_mapping(event);
}

void MappingFollower::fail(Tid tid, const PendingCall& call, MonotonicNs time) {
    account_.events.on_mapping(event_of(tid, call, MappingEvent::Step::failed, time));
}

void MappingFollower::flush_abandoned(Tid tid, MonotonicNs time) {
    drain(abandoned_, [&](const PendingCall& call) { fail(tid, call, time); });
}

} // namespace memleax
