// SPDX-License-Identifier: GPL-3.0-or-later
// InlineEngine: what a call means that has stopped its thread.
#include "inline_engine.hpp"

#include <array>

#include "memleax/base/clock.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

bool InlineEngine::on_trap(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return Int3Engine::on_trap(tid);
    }
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return true;
    }
    const Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint == nullptr) {
        return false;
    }
    patched_.look_at(tid);
    collect();
    const auto* function = patched_.of_trap(*breakpoint);
    if (breakpoint->entry >= 0 && function == nullptr) {
        count(StopReason::breakpoint);
    }
    if (function != nullptr) {
        const auto [way, reason] = decide(tid, regs, *breakpoint, *function);
        count(reason);
        made_anew_ += way == Way::again ? 1 : 0;
        if (way != Way::stop) {
            target_.drop_stop_signal(tid);
            trap_signal_.after_hit(tid);
            go_on_at(tid, &regs, way == Way::again ? breakpoint->retry() : *function->entry->slot);
            tell(); // while it runs
            return true;
        }
    }
    tell();
    threads_.was_delivered(monotonic_now());
    Trapping& trapping = trapping_[tid];
    trapping.in_told_free = breakpoint->entry >= 0 && frees_blocks(breakpoint->entry);
    forget_live(*breakpoint, regs);
    lift_if_useless(breakpoint->address());
    return Int3Engine::on_trap(tid);
}

// A full ring is read first, and others' with it.
bool InlineEngine::takes_long(Tid tid) const {
    const auto index = left_ ? std::nullopt : threads_.find(tid);
    return index && threads_.now(*index).why == agent::Trap::no_room;
}

// A block that ends without the agent must not be known to it: its address will be given out anew.
void InlineEngine::forget_live(const Breakpoint& breakpoint, const arch::Registers& regs) {
    if (breakpoint.entry < 0 || !follower_.checks()) {
        return;
    }
    const AllocatorFunction& function = *follower_.function(breakpoint.entry).function;
    if (function.pointer_argument >= 0 && function.family == kMemory) {
        memory_.forget_live(handle_address(
            function, arch::argument(regs, static_cast<unsigned>(function.pointer_argument))));
    }
}

bool InlineEngine::frees_blocks(int number) const {
    const AllocatorFunction& function = *follower_.function(number).function;
    return function.call == AllocatorCall::free && function.mapping == MappingCall::none &&
           function.family == kMemory;
}

// The agent's calls need no breakpoint where they return to.
void InlineEngine::lift_if_useless(CodeAddr address) {
    Breakpoint* breakpoint = breakpoints_.find(address);
    const bool is_return_only = breakpoint != nullptr && breakpoint->is_return &&
                                breakpoint->entry < 0 && breakpoint->probe < 0 &&
                                !breakpoint->is_module_event && !breakpoint->is_signal_action;
    if (is_return_only && breakpoint->inserted && breakpoint->slot &&
        !follower_.awaits_return(address)) {
        lift(*breakpoint);
    }
}

void InlineEngine::go_on_at(Tid tid, arch::Registers* regs, CodeAddr place) {
    if (!target_.has_executed(tid)) {
        StoppedThread(tid).set_pc(regs, place);
        target_.resume(tid);
    }
}

InlineEngine::Decision InlineEngine::decide(Tid tid, const arch::Registers& regs,
                                            const Breakpoint& breakpoint,
                                            const PatchedFunctions::Function& function) {
    Trapping& trapping = trapping_[tid];
    const RemoteAddr sp = arch::sp(regs);
    const auto known = threads_.find(tid);
    const agent::Progress seen = known ? threads_.seen(*known) : agent::Progress();
    withdraw_forced_stack(tid);
    if (told_calls_.has(tid, breakpoint.place(), regs)) {
        ++made_anew_; // of one call it is the second stop
        return {Way::stop, StopReason::stopped_call};
    }
    if (has_calls_to_come(tid, regs)) {
        return {Way::stop, StopReason::signal_handler};
    }
    if (seen.has_failed != 0) {
        memory_.forget_failure(*known);
        return {Way::stop, StopReason::other}; // it throws
    }
    if (known && seen.why == agent::Trap::not_live && !trapping.trap && seen.inside == 0) {
        trapping.is_retried = false;
        return {Way::stop, StopReason::unknown_block};
    }
    if (trapping.is_retried && trapping.calls == seen.calls && trapping.sp == sp) {
        trapping.is_retried = false;
        return {Way::stop, StopReason::other}; // whatever it is
    }
    if (follower_.has_pending(tid)) {
        return {Way::stop, StopReason::stopped_call};
    }
    if (seen.inside == 0 && seen.interrupted != 0) {
        memory_.set_interrupted(*known, false); // else it would trap for ever
    } else if (seen.inside != 0) {
        if (const auto decision = decide_within(tid, *known, regs, breakpoint)) {
            return *decision;
        }
    }
    StopReason reason =
        seen.why == agent::Trap::no_room ? StopReason::ring_full : StopReason::other;
    reason = trapping.trap ? StopReason::stopped_call : reason;
    if (trapping.in_told_free) {
        trapping.in_told_free = false;
        set_trap(tid, false);
        if (function.frees) {
            return {Way::stop, reason};
        }
    }
    const auto index = find_thread(tid, regs, &reason);
    if (!index) {
        return {Way::stop, StopReason::no_block};
    }
    set_trap(tid, false);
    if ((!function.frees || follower_.checks()) &&
        !tell_stack(tid, *index, regs, breakpoint, &reason)) {
        return {Way::stop, StopReason::irregular_stack};
    }
    trapping.is_retried = true;
    trapping.calls = seen.calls;
    trapping.sp = sp;
    return {Way::again, reason};
}

// Makes the thread, and the stack that it is on, known to the agent.
std::optional<std::uint32_t> InlineEngine::find_thread(Tid tid, const arch::Registers& regs,
                                                       StopReason* reason) {
    const RemoteAddr sp = arch::sp(regs);
    const std::uint64_t pointer = StoppedThread(tid).thread_pointer(regs);
    const auto known = threads_.find(tid);
    const auto stack = known && threads_.stack(*known).contains(sp.value())
                           ? std::nullopt
                           : stacks_.of(tid, sp, pointer);
    if (!known || told_pointer_from_ != arch::ThreadPointerFrom::memory) {
        look_at_pointer(tid, pointer); // it may have got one since
    }
    if (!known) {
        *reason = StopReason::new_thread;
        // What a child by vfork had would be its parent's, who goes on with it before we know.
        if (target_.is_child_process(tid)) {
            return std::nullopt;
        }
        const auto index = stack ? threads_.get(tid, pointer, *stack) : std::nullopt;
        tell_own_mappings();
        return index;
    }
    if (stack) { // a coroutine's, or a signal's
        *reason = StopReason::foreign_stack;
        threads_.set_stack(*known, *stack);
    }
    return threads_.get(tid, pointer, {}) == known ? known : std::nullopt;
}

// The agent gets to know the call's stack. False if there is none.
bool InlineEngine::tell_stack(Tid tid, std::uint32_t index, const arch::Registers& regs,
                              const Breakpoint& breakpoint, StopReason* reason) {
    const UnwoundStack& walked = reporter_.walk(regs, follower_.walk_limit());
    if (walked.frames.size() < 2 || walked.end == StackEnd::unknown_code) {
        return false;
    }
    const StackId id = follower_.intern(
        reporter_.recorder().to_record(tid, regs, StackRecorder::At::entry, walked));
    threads_.add_stack(id);
    rules_.clear();
    for (const FrameAddress frame : walked.frames) {
        rules_.push_back(reporter_.unwinder().rule(frame));
    }
    if (reporter_.take_news_of_code() && tree_.has_stray([this](std::uint64_t word) {
            return reporter_.is_code(FrameAddress::return_address(CodeAddr(word)).lookup_pc());
        })) {
        tree_.clear();
    }
    bool is_known = false;
    const bool may_be_known = follower_.backtrace_limit() >= 2 && reporter_.is_end_certain();
    if (may_be_known) {
        const std::size_t before = tree_.size();
        is_known = tree_.add(static_cast<std::uint32_t>(breakpoint.entry), walked, rules_, id);
        if (*reason == StopReason::other) {
            *reason = tree_.size() != before ? StopReason::new_stack : *reason;
        }
    }
    if (*reason == StopReason::other && !is_known) {
        *reason =
            may_be_known && tree_.had_no_room() ? StopReason::no_room : StopReason::irregular_stack;
    }
    memory_.set_forced_stack(index, id.value());
    trapping_[tid].has_forced_stack = true;
    return true;
}

void InlineEngine::before_going_on(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return;
    }
    Trapping& trapping = trapping_[tid];
    set_trap(tid, trapping.in_told_free || follower_.has_pending(tid) || told_calls_.has_any(tid));
}

void InlineEngine::set_trap(Tid tid, bool trap) {
    const auto index = threads_.find(tid);
    Trapping& trapping = trapping_[tid];
    if (index && trapping.trap != trap) {
        trapping.trap = trap;
        memory_.set_trap(*index, trap);
    }
}

// It was meant for one call, which is not the next one after all.
void InlineEngine::withdraw_forced_stack(Tid tid) {
    Trapping& trapping = trapping_[tid];
    const auto index = threads_.find(tid);
    if (index && trapping.has_forced_stack) {
        memory_.set_forced_stack(*index, agent::kNoStackId);
    }
    trapping.has_forced_stack = false;
}

// The kernel has set a handler of SIGSEGV back that was not to be called: one that was ignored, or
// blocked (kernel/signal.c, force_sig_info_to_task). That is not mended.
bool InlineEngine::takes_fault(Tid tid) {
    arch::Registers regs;
    if (!memory_.mapped() || !StoppedThread(tid).get_registers(&regs) ||
        !memory_.pages().contains(arch::pc(regs)) || StoppedThread(tid).is_sent_signal()) {
        return false;
    }
    using Code = std::array<std::uint8_t, arch::kPointerReadBytes>;
    const auto code = target_.memory().try_read_object<Code>(arch::pc(regs).as_data());
    if (!code || !arch::after_failed_pointer_read(*code, &regs)) {
        return false;
    }
    look_at_pointer(tid, StoppedThread(tid).thread_pointer(regs));
    return StoppedThread(tid).set_registers(regs);
}

bool InlineEngine::leave_own_code(Tid tid) {
    const auto index = left_ ? std::nullopt : threads_.find(tid);
    if (!index) {
        return Int3Engine::leave_own_code(tid);
    }
    withdraw_forced_stack(tid);
    const bool is_out = Int3Engine::leave_own_code(tid);
    if (told_calls_.has_any(tid)) {
        set_trap(tid, true);
    }
    if (threads_.now(*index).inside == 0) {
        return is_out;
    }
    memory_.set_interrupted(*index, true);
    return false;
}

void InlineEngine::on_thread_gone(Tid tid) {
    drain();
    threads_.on_thread_gone(tid);
    patched_.on_thread_gone(tid);
    stacks_.on_thread_gone(tid);
    pointers_.on_thread_gone(tid);
    tell_pointer_place();
    trapping_.erase(tid);
    Int3Engine::on_thread_gone(tid);
}

void InlineEngine::on_quiet_stop(Tid tid) {
    if (left_ || !memory_.mapped() || patched_.gave_up()) {
        return;
    }
    patched_.look_at(tid);
    arch::Registers regs;
    // A child by vfork has the thread pointer of its parent, which waits for it.
    if (threads_.find(tid) || target_.is_child_process(tid)) {
        return;
    }
    stacks_.on_first_stop(tid);
    if (!StoppedThread(tid).get_registers(&regs)) {
        return;
    }
    const std::uint64_t pointer = StoppedThread(tid).thread_pointer(regs);
    // glibc gives a stack out anew as soon as the kernel has cleared the old thread's id, long
    // before its end is told (nptl/allocatestack.c).
    if (const auto other = threads_.find_by_pointer(pointer); other && is_past_its_end(*other)) {
        drain();
        threads_.on_thread_gone(*other);
    }
    look_at_pointer(tid, pointer);
    threads_.on_birth(tid, pointer);
    // Then its first call need not stop it, which may be one with all signals blocked.
    if (const auto stack = stacks_.of_newborn(arch::sp(regs), pointer)) {
        threads_.get_early(tid, pointer, *stack);
    }
}

} // namespace memleax
