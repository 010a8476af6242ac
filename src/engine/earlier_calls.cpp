// SPDX-License-Identifier: GPL-3.0-or-later
#include "earlier_calls.hpp"

#include <algorithm>

#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

namespace {

/// Of a stack that is walked in search of a call.
constexpr unsigned kMostWalkedFrames = 256;

} // namespace

void EarlierCalls::begin(std::vector<AddrRange> functions) {
    functions_ = std::move(functions);
    for (const auto& [tid, thread] : target_.threads()) {
        unseen_.add(tid);
    }
    pause_ns_ = kShortestPauseNs;
    next_look_ = MonotonicNs();
    look();
}

void EarlierCalls::look() {
    constexpr std::int64_t kLongestPauseNs = kNsPerSecond;
    constexpr std::int64_t kShareOfTime = 20; // one in so many
    const std::int64_t begun = monotonic_now().value();
    if (begun < next_look_.value()) {
        return;
    }
    const std::size_t before = unseen_.size();
    unseen_.look([this](Tid tid) { return is_outside(tid); });
    pause_ns_ =
        unseen_.size() < before ? kShortestPauseNs : std::min(2 * pause_ns_, kLongestPauseNs);
    const std::int64_t now = monotonic_now().value();
    next_look_ = MonotonicNs(now + std::max(pause_ns_, (now - begun) * kShareOfTime));
}

bool EarlierCalls::is_outside(Tid tid) {
    if (!target_.threads().contains(tid)) {
        return true;
    }
    if (target_.is_stopped(tid)) {
        return false; // at a breakpoint, perhaps
    }
    const auto before = try_read_kernel_state(target_.pid(), tid);
    if (!before || before->has_ended() || before->is_kernels_worker) {
        return true;
    }
    if (before->state == 'R') {
        return computing_.computes(target_.pid(), tid); // no call takes so long
    }
    return before->system_call && sleeps_outside(tid, *before) &&
           sleeps_since(target_.pid(), tid, *before);
}

// Without its registers the stack of one that sleeps can be walked as far as a frame's size is
// known. An allocator's frames are the inner ones.
bool EarlierCalls::sleeps_outside(Tid tid, const KernelState& kernel) {
    const auto regs = known_registers(target_, tid);
    if (!regs) {
        return false;
    }
    UnwoundStack stack;
    unwinder_().unwind(*regs, kMostWalkedFrames, &stack);
    const auto any_in = [this](const auto& is_there) {
        return std::any_of(functions_.begin(), functions_.end(), is_there);
    };
    bool leads_out = false;
    for (const FrameAddress frame : stack.frames) {
        const CodeAddr pc = frame.lookup_pc();
        const Module* module = modules_.find(pc);
        if (any_in([pc](const AddrRange& function) { return function.contains(pc); })) {
            return false;
        }
        leads_out = leads_out || module == nullptr || !any_in([module](const AddrRange& function) {
                        return module->range.contains(function.begin);
                    });
    }
    return stack.end == StackEnd::outermost || leads_out || !may_be_allocators(*kernel.system_call);
}

} // namespace memleax
