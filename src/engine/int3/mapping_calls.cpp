// SPDX-License-Identifier: GPL-3.0-or-later
#include "mapping_calls.hpp"

#include <algorithm>

#include <sys/mman.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/target/target.hpp"
#include "walked_call.hpp"

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

/// Where the segment that is attached here ends is not known to the call, but to the kernel.
AddrRange attached_range(Tid pid, std::uint64_t begin) {
    if (const auto maps = read_maps(pid)) {
        for (const Mapping& mapping : *maps) {
            if (mapping.range.begin == begin) {
                return mapping.range;
            }
        }
    }
    return {}; // detached by another thread already
}

/// Of a call that has come to its end.
MappingEvent event_of(Tid tid, const PendingCall& call, MappingEvent::Step step) {
    MappingEvent event;
    event.step = step;
    event.call = call.function->mapping;
    event.kind = call.kind;
    event.tid = tid;
    event.stack = call.stack;
    event.time = monotonic_now();
    return event;
}

bool is_error(MappingCall call, std::uint64_t result) {
    switch (call) {
    case MappingCall::munmap:
    case MappingCall::brk:
    case MappingCall::shmdt:
        return static_cast<std::int32_t>(result) != 0; // an int
    default:
        return result == ~std::uint64_t{0}; // MAP_FAILED, (void*)-1
    }
}

} // namespace

MappingCalls::MappingCalls(Target& target, const ModuleMap& modules, Unwinder& unwinder,
                           ReturnWatch& returns, EventSink& sink, const TrackedMemory& tracked,
                           unsigned backtrace_limit)
    : target_(target), modules_(modules), unwinder_(unwinder), returns_(returns), sink_(sink),
      backtrace_limit_(backtrace_limit), tracked_(tracked) {}

void MappingCalls::add_unwatched(const AllocatorEntry& entry) {
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
    const Module* module = modules_.find(entry.address);
    const bool is_allocator = !starts_threads && function.origin.empty() && !entry.in_c_library &&
                              module != nullptr && module != modules_.main();
    if (is_allocator &&
        std::find(allocators_.begin(), allocators_.end(), module) == allocators_.end()) {
        allocators_.push_back(module);
    }
}

void MappingCalls::forget(AddrRange range) {
    std::erase_if(owners_,
                  [&](const OwnersCode& each) { return range.contains(each.range.begin); });
    std::erase_if(allocators_,
                  [&](const Module* each) { return range.contains(each->range.begin); });
}

void MappingCalls::on_signal(Tid tid) {
    if (const auto it = pending_.find(tid); it != pending_.end()) {
        it->second.signal_delivered();
    }
}

void MappingCalls::on_thread_gone(Tid tid) {
    if (const auto it = pending_.find(tid); it != pending_.end()) {
        while (!it->second.empty()) {
            fail(tid, it->second.pop());
        }
        pending_.erase(it);
    }
}

void MappingCalls::reset() {
    pending_.clear();
    owners_.clear();
    allocators_.clear();
}

MemoryKind MappingCalls::kind_of(MappingCall call, CodeAddr entry, bool within_allocator) const {
    const auto& frames = backtrace_.frames;
    for (auto frame = frames.begin() + 1; frame < frames.end(); ++frame) {
        const std::uint64_t pc = frame->lookup_pc().value();
        for (const OwnersCode& owner : owners_) {
            if (owner.range.contains(pc)) {
                return owner.kind;
            }
        }
    }
    // Where malloc's code is not on the stack: it has jumped on, or this is a thread of its own.
    const Module* caller = frames.size() > 1 ? modules_.find(frames[1].lookup_pc()) : nullptr;
    if (within_allocator ||
        (caller != nullptr && caller != modules_.find(entry) &&
         std::find(allocators_.begin(), allocators_.end(), caller) != allocators_.end())) {
        return MemoryKind::allocator;
    }
    switch (call) {
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

bool MappingCalls::follows(MappingCall call) const {
    return tracked_.mmap || (call != MappingCall::mmap && call != MappingCall::mremap);
}

/// glibc's brk(2) leaves the break there; no other C library's brk does anything.
std::uint64_t MappingCalls::read_break(CodeAddr entry) const {
    const Module* module = modules_.find(entry);
    const auto variable = module != nullptr && module->image
                              ? module->image->find_variable("__curbrk")
                              : std::nullopt;
    if (!variable) {
        return 0;
    }
    const RemoteAddr place = module->to_runtime(variable->address).as_data();
    return target_.memory().try_read_object<std::uint64_t>(place).value_or(0);
}

MappingEvent MappingCalls::begin(const arch::Registers& regs, PendingCall& call) const {
    const auto argument = [&regs](unsigned n) { return arch::argument(regs, n); };
    MappingEvent event;
    event.step = MappingEvent::Step::begun;
    event.call = call.function->mapping;
    switch (event.call) {
    case MappingCall::mmap: // address, length, protection, flags
        call.size = mapped_length(argument(1), argument(3));
        if ((argument(3) & MAP_FIXED) != 0 && (argument(3) & MAP_FIXED_NOREPLACE) == 0) {
            event.ended[0] = range_at(argument(0), call.size);
        }
        break;
    case MappingCall::munmap: // address, length
        event.ended[0] = range_at(argument(0), whole_pages(argument(1)));
        break;
    case MappingCall::mremap: { // address, length, new length, flags, new address
        call.size = whole_pages(argument(2));
        const std::uint64_t flags = argument(3);
        if ((flags & MREMAP_DONTUNMAP) == 0) { // length 0: a second mapping of the same (mremap(2))
            event.ended[0] = range_at(argument(0), whole_pages(argument(1)));
        }
        if ((flags & MREMAP_FIXED) != 0) {
            event.ended[1] = range_at(argument(4), call.size);
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
        break;
    case MappingCall::shmat: // identifier, address, flags
    case MappingCall::none:
    case MappingCall::thread_start:
        break;
    }
    return event;
}

void MappingCalls::on_entry(Tid tid, const arch::Registers& regs, const AllocatorEntry& entry,
                            bool within_allocator, bool can_watch_return) {
    PendingCalls& calls = pending_[tid];
    if (!can_watch_return) {
        return;
    }
    StoppedWalker walker(unwinder_, regs, backtrace_);
    const bool nested =
        is_nested(calls, {entry.address, arch::sp_after_return(regs)}, walker, &abandoned_);
    flush_abandoned(tid);
    if (nested) {
        return;
    }
    unwinder_.unwind_at_entry(regs, std::max(backtrace_limit_, 2U), &backtrace_);
    if (backtrace_.frames.size() < 2) {
        return; // an unreadable stack: the thread is about to die of it
    }
    PendingCall call = call_at(entry, backtrace_, regs);
    call.kind = kind_of(entry.function->mapping, entry.address, within_allocator);
    MappingEvent event = begin(regs, call);
    const bool may_end = event.ended[0].size() + event.ended[1].size() != 0;
    const bool is_nothing =
        !may_end && (!follows(event.call) || (event.call == MappingCall::sbrk && call.size == 0));
    if (is_nothing) {
        return;
    }
    const bool is_followed = !returns_.watch(tid, call.return_address).has_value();
    if (!is_followed && !may_end && event.detached.value() == 0) {
        return; // what it maps is found in the end, by nobody's name
    }
    call.stack = intern(sink_, backtrace_, backtrace_limit_);
    event.tid = tid;
    event.kind = call.kind;
    event.time = monotonic_now();
    sink_.on_mapping(event);
    if (is_followed) {
        calls.push(call);
        return;
    }
    // Unmapping hardly ever fails.
    event.step = MappingEvent::Step::succeeded;
    event.stack = call.stack;
    for (AddrRange& range : event.ended) {
        range = {};
    }
    sink_.on_mapping(event);
}

void MappingCalls::end_calls(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    const auto it = pending_.find(tid);
    if (it == pending_.end()) {
        return;
    }
    while (const auto call = it->second.end(breakpoint.address, arch::sp(regs), &abandoned_)) {
        flush_abandoned(tid);
        finish(tid, *call, arch::return_value(regs));
    }
    flush_abandoned(tid);
}

void MappingCalls::finish(Tid tid, const PendingCall& call, std::uint64_t result) {
    if (is_error(call.function->mapping, result)) {
        fail(tid, call);
        return;
    }
    MappingEvent event = event_of(tid, call, MappingEvent::Step::succeeded);
    const auto moves_break = [&event](std::uint64_t from, std::uint64_t to) {
        if (from < to) {
            event.added = {from, to};
        } else if (to < from) {
            event.ended[0] = {to, from};
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
        event.added = attached_range(target_.pid(), result);
        break;
    default:
        break;
    }
    sink_.on_mapping(event);
}

void MappingCalls::fail(Tid tid, const PendingCall& call) {
    sink_.on_mapping(event_of(tid, call, MappingEvent::Step::failed));
}

void MappingCalls::flush_abandoned(Tid tid) {
    for (const PendingCall& call : abandoned_) {
        fail(tid, call);
    }
    abandoned_.clear();
}

} // namespace memleax
