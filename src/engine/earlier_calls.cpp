// SPDX-License-Identifier: GPL-3.0-or-later
#include "earlier_calls.hpp"

#include <algorithm>
#include <array>

#include <sys/syscall.h>

#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

namespace {

/// Of a stack that is walked in search of a call.
constexpr unsigned kMostFrames = 256;

bool any_contains(const std::vector<AddrRange>& ranges, CodeAddr pc) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [pc](const AddrRange& range) { return range.contains(pc); });
}

/// Could an allocator wait in this system call: for a lock, or for memory?
bool may_be_allocators(long system_call) {
    constexpr std::array kCalls{SYS_futex, SYS_nanosleep, SYS_clock_nanosleep,
                                SYS_mmap,  SYS_munmap,    SYS_mremap,
                                SYS_brk,   SYS_madvise,   SYS_mprotect};
    return std::find(kCalls.begin(), kCalls.end(), system_call) != kCalls.end();
}

} // namespace

void EarlierCalls::begin(std::vector<AddrRange> functions) {
    functions_ = std::move(functions);
    modules_of_functions_.clear();
    for (const AddrRange& function : functions_) {
        if (const Module* module = modules_.find(CodeAddr(function.begin))) {
            modules_of_functions_.push_back(module->range);
        }
    }
    for (const auto& [tid, thread] : target_.threads()) {
        unseen_.insert(tid);
    }
    pause_ns_ = kShortestPauseNs;
    next_look_ = MonotonicNs();
    look();
}

void EarlierCalls::look() {
    constexpr std::int64_t kMostNs = 3'000'000;
    constexpr std::int64_t kLongestPauseNs = kNsPerSecond;
    constexpr std::int64_t kShareOfTime = 20; // one in so many
    const std::int64_t begun = monotonic_now().value();
    if (begun < next_look_.value()) {
        return;
    }
    const std::size_t before = unseen_.size();
    look_until(begun + kMostNs);
    pause_ns_ =
        unseen_.size() < before ? kShortestPauseNs : std::min(2 * pause_ns_, kLongestPauseNs);
    const std::int64_t now = monotonic_now().value();
    next_look_ = MonotonicNs(now + std::max(pause_ns_, (now - begun) * kShareOfTime));
}

void EarlierCalls::look_until(std::int64_t end) {
    // From where it ended the last time, once around.
    std::vector<Tid> all(unseen_.upper_bound(looked_at_last_), unseen_.end());
    all.insert(all.end(), unseen_.begin(), unseen_.upper_bound(looked_at_last_));
    for (const Tid tid : all) {
        if (is_outside(tid)) {
            unseen_.erase(tid);
        }
        looked_at_last_ = tid;
        if (monotonic_now().value() > end) {
            return;
        }
    }
}

bool EarlierCalls::is_outside(Tid tid) {
    if (!target_.threads().contains(tid)) {
        return true;
    }
    if (target_.is_stopped(tid)) {
        return false; // at a breakpoint, perhaps
    }
    const auto before = try_read_kernel_state(target_.pid(), tid);
    if (!before || before->has_ended() || is_kernels_worker(tid)) {
        return true;
    }
    if (before->state == 'R') {
        return computing_.computes(target_.pid(), tid); // no call takes so long
    }
    if (!before->system_call || !sleeps_outside(tid, *before)) {
        return false;
    }
    // It has slept all the time that its stack was looked at.
    const auto after = try_read_kernel_state(target_.pid(), tid);
    return after && after->state == before->state && after->pc == before->pc &&
           after->system_call == before->system_call;
}

// Without its registers the stack of one that sleeps can be walked as far as a frame's size is
// known. An allocator's frames are the inner ones.
bool EarlierCalls::sleeps_outside(Tid tid, const KernelState& kernel) {
    const auto regs = known_registers(target_, tid);
    if (!regs) {
        return false;
    }
    UnwoundStack stack;
    unwinder_().unwind(*regs, kMostFrames, &stack);
    const auto is_in = [](const std::vector<AddrRange>& ranges) {
        return [&ranges](FrameAddress frame) { return any_contains(ranges, frame.lookup_pc()); };
    };
    if (std::any_of(stack.frames.begin(), stack.frames.end(), is_in(functions_))) {
        return false;
    }
    const bool leads_out =
        !std::all_of(stack.frames.begin(), stack.frames.end(), is_in(modules_of_functions_));
    return stack.end == StackEnd::outermost || leads_out || !may_be_allocators(*kernel.system_call);
}

} // namespace memleax
