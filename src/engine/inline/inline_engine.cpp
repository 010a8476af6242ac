// SPDX-License-Identifier: GPL-3.0-or-later
#include "inline_engine.hpp"

#include <algorithm>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/maps.hpp"

namespace memleax {

namespace {
/// Of a walk that looks for a frame of the agent's.
constexpr unsigned kMostFrames = 256;
/// A ring with so many after a tick would be full, and stop its thread, before the next.
constexpr std::uint64_t kManyEntries = agent::kRingEntries / 4;
} // namespace

InlineEngine::InlineEngine(const EngineContext& context, EngineHost& host)
    : Int3Engine(context, host), account_(context.account), memory_(context.target),
      threads_(memory_), tree_(memory_),
      patched_(context.target, breakpoints_, memory_, reporter_.unwinder()) {
    breakpoints_.own_codes().add_first(&memory_.pages());
    memory_.pages().before_unmapping([this] { drain(); });
    threads_.tick(monotonic_now());
}

InlineEngine::~InlineEngine() {
    breakpoints_.own_codes().remove(&memory_.pages());
}

// ---- What is patched ----------------------------------------------------------------------------

Result<void> InlineEngine::watch(const WatchedPlaces& places, Tid worker) {
    const auto first = static_cast<int>(follower_.functions().size());
    // What is recorded then is read while it can be.
    for (const CodeAddr call : places.last_calls) {
        if (const auto inserted = breakpoints_.insert(call, worker); !inserted) {
            log_debug("the end is not watched: {}", inserted.error().message());
        }
    }
    auto watched = Int3Engine::watch(places, worker);
    if (watched) {
        patched_.add(follower_, first, worker);
        threads_.set_functions(static_cast<int>(follower_.functions().size()));
    }
    return watched;
}

Result<Breakpoint*> InlineEngine::insert(const AllocatorEntry& function, Tid worker) {
    return patched_.may_have_jump(function, worker)
               ? breakpoints_.insert_at_entry(function.address, function.size, worker)
               : Int3Engine::insert(function, worker);
}

void InlineEngine::forget(AddrRange range) {
    drain();
    patched_.forget(range);
    tree_.clear();
    Int3Engine::forget(range);
}

void InlineEngine::modules_changed() {
    drain();
    tree_.clear();
    Int3Engine::modules_changed();
}

void InlineEngine::reset() {
    memory_.forget();
    reporter_.unwinder().forget_own_return_places();
    threads_.forget();
    tree_.clear();
    patched_.reset();
    trapping_.clear();
    Int3Engine::reset();
}

// ---- Stops --------------------------------------------------------------------------------------

bool InlineEngine::on_trap(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return Int3Engine::on_trap(tid);
    }
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return true;
    }
    const Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint == nullptr) {
        return false;
    }
    patched_.look_at(tid);
    collect();
    stopped_calls_ += breakpoint->entry >= 0 ? 1 : 0;
    if (const auto* function = patched_.of_trap(*breakpoint)) {
        const Way way = decide(tid, regs, *breakpoint, *function);
        made_anew_ += way == Way::again ? 1 : 0;
        if (way != Way::stop) {
            target_.drop_stop_signal(tid);
            trap_signal_.after_hit(tid);
            go_on_at(tid, &regs, way == Way::again ? breakpoint->place() : *function->entry->slot);
            tell(); // while it runs
            return true;
        }
    }
    tell();
    threads_.was_told(monotonic_now());
    Trapping& trapping = trapping_[tid];
    trapping.in_told_free =
        breakpoint->entry >= 0 &&
        follower_.function(breakpoint->entry).function->call == AllocatorCall::free;
    lift_if_useless(breakpoint->address());
    return Int3Engine::on_trap(tid);
}

// The agent's calls need no breakpoint where they return to.
void InlineEngine::lift_if_useless(CodeAddr address) {
    Breakpoint* breakpoint = breakpoints_.find(address);
    const bool is_return_only = breakpoint != nullptr && breakpoint->is_return &&
                                breakpoint->entry < 0 && !breakpoint->is_module_event &&
                                !breakpoint->is_signal_action;
    if (is_return_only && breakpoint->inserted && breakpoint->slot &&
        !follower_.awaits_return(address)) {
        breakpoints_.restore(*breakpoint);
    }
}

void InlineEngine::go_on_at(Tid tid, arch::Registers* regs, CodeAddr place) {
    target_.set_pc(tid, regs, place);
    target_.resume(tid);
}

InlineEngine::Way InlineEngine::decide(Tid tid, const arch::Registers& regs,
                                       const Breakpoint& breakpoint,
                                       const PatchedFunctions::Function& function) {
    Trapping& trapping = trapping_[tid];
    const RemoteAddr sp = arch::sp(regs);
    auto index = threads_.find(tid);
    const std::uint64_t calls = index ? threads_.seen(*index).calls : 0;
    withdraw_forced_stack(tid);
    if (trapping.is_retried && trapping.calls == calls && trapping.sp == sp) {
        trapping.is_retried = false; // whatever the reason is
        return Way::stop;
    }
    if (index && threads_.seen(*index).has_failed != 0) {
        memory_.forget_failure(*index);
        return Way::stop; // it throws
    }
    if (follower_.has_pending(tid)) {
        return Way::stop;
    }
    if (index && threads_.seen(*index).inside != 0) {
        if (const auto way = decide_within(tid, *index, regs, breakpoint)) {
            return *way;
        }
    }
    if (trapping.in_told_free) {
        trapping.in_told_free = false;
        set_trap(tid, false);
        if (function.frees) {
            return Way::stop;
        }
    }
    const auto stack =
        index && threads_.stack(*index).contains(sp.value()) ? std::nullopt : stack_at(sp);
    if (!index) {
        index = stack ? threads_.get(tid, arch::thread_pointer(regs), *stack) : std::nullopt;
    } else if (stack) { // a coroutine's, or a signal's
        threads_.set_stack(*index, *stack);
    }
    if (!index || threads_.get(tid, arch::thread_pointer(regs), {}) != index) {
        return Way::stop;
    }
    set_trap(tid, false);
    if (!function.frees) {
        const UnwoundStack& walked = reporter_.walk(regs, follower_.walk_limit());
        if (walked.frames.size() < 2 || walked.end == StackEnd::unknown_code) {
            return Way::stop;
        }
        const StackId id = follower_.intern(walked);
        threads_.add_stack(id);
        rules_.clear();
        for (const FrameAddress frame : walked.frames) {
            rules_.push_back(reporter_.unwinder().rule(frame));
        }
        if (follower_.backtrace_limit() >= 2) {
            tree_.add(static_cast<std::uint32_t>(breakpoint.entry), walked, rules_, id);
        }
        memory_.set_forced_stack(*index, id.value());
        trapping.has_forced_stack = true;
    }
    trapping.is_retried = true;
    trapping.calls = calls;
    trapping.sp = sp;
    return Way::again;
}

std::optional<InlineEngine::Way> InlineEngine::decide_within(Tid tid, std::uint32_t index,
                                                             const arch::Registers& regs,
                                                             const Breakpoint& breakpoint) {
    tell();
    const UnwoundStack& walked = reporter_.walk(regs, kMostFrames);
    const auto& places = memory_.return_places();
    const auto ours =
        std::find_if(walked.frames.begin(), walked.frames.end(), [&](FrameAddress frame) {
            return std::find(places.begin(), places.end(), frame.pc()) != places.end();
        });
    if (ours == walked.frames.end()) { // it was left by siglongjmp
        if (const auto left = threads_.leave_call(index, monotonic_now())) {
            follower_.on_recorded({&*left, 1});
        }
        return std::nullopt;
    }
    const bool by_handler = std::any_of(walked.frames.begin() + 1, ours, [](FrameAddress frame) {
        return !frame.is_return_address();
    });
    if (by_handler) {
        return Way::stop;
    }
    memory_.set_interrupted(index, false); // its handler has returned
    const AllocatorFunction& function = *follower_.function(breakpoint.entry).function;
    if (function.pointer_argument >= 0) {
        RecordedCall ends;
        ends.kind = RecordedCall::Kind::inner_free;
        ends.tid = tid;
        ends.function = breakpoint.entry;
        ends.block = handle_address(
            function, arch::argument(regs, static_cast<unsigned>(function.pointer_argument)));
        ends.time = monotonic_now();
        follower_.on_recorded({&ends, 1});
    }
    return Way::past;
}

void InlineEngine::before_going_on(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return;
    }
    Trapping& trapping = trapping_[tid];
    set_trap(tid, trapping.in_told_free || follower_.has_pending(tid));
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

bool InlineEngine::leave_own_code(Tid tid) {
    const auto index = left_ ? std::nullopt : threads_.find(tid);
    if (!index) {
        return Int3Engine::leave_own_code(tid);
    }
    drain();
    withdraw_forced_stack(tid);
    const bool is_out = Int3Engine::leave_own_code(tid);
    if (threads_.seen(*index).inside == 0) {
        return is_out;
    }
    memory_.set_interrupted(*index, true);
    return false;
}

void InlineEngine::on_thread_gone(Tid tid) {
    drain();
    threads_.on_thread_gone(tid);
    patched_.on_thread_gone(tid);
    trapping_.erase(tid);
    Int3Engine::on_thread_gone(tid);
}

void InlineEngine::on_quiet_stop(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return;
    }
    patched_.look_at(tid);
    arch::Registers regs;
    if (!threads_.find(tid) && target_.get_registers(tid, &regs)) {
        threads_.on_birth(tid, arch::thread_pointer(regs));
    }
}

// ---- In between ---------------------------------------------------------------------------------

bool InlineEngine::on_tick() {
    if (left_ || !memory_.mapped()) {
        return false;
    }
    threads_.tick(monotonic_now());
    patched_.look();
    drain();
    tell_calls();
    return threads_.take_fullest() > kManyEntries;
}

void InlineEngine::drain() {
    collect();
    tell();
}

void InlineEngine::collect() {
    is_untold_ = memory_.mapped();
    if (is_untold_) {
        threads_.fetch();
    }
}

void InlineEngine::tell() {
    if (!is_untold_) {
        return;
    }
    is_untold_ = false;
    if (const auto& calls = threads_.take(); !calls.empty()) {
        follower_.on_recorded(calls);
    }
    if (threads_.told_until().value() != 0 && !left_) {
        account_.events.on_watermark(threads_.told_until());
    }
}

void InlineEngine::tell_calls() {
    account_.events.on_seen_calls({threads_.calls() + stopped_calls_ - made_anew_, stopped_calls_});
}

std::optional<AddrRange> InlineEngine::stack_at(RemoteAddr sp) const {
    const auto maps = read_maps(target_.pid());
    std::uint64_t end_before = 0;
    for (const Mapping& mapping : maps ? *maps : std::vector<Mapping>()) {
        if (mapping.range.contains(sp.value())) {
            // The first thread's grows downwards.
            const bool grows = mapping.path == "[stack]";
            return AddrRange{grows ? end_before : mapping.range.begin, mapping.range.end};
        }
        end_before = mapping.range.end;
    }
    return std::nullopt;
}

// ---- Leaving ------------------------------------------------------------------------------------

void InlineEngine::restore_code() {
    drain();
    patched_.withdraw_jumps();
    Int3Engine::restore_code();
    drain();
}

void InlineEngine::on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    drain();
    Int3Engine::on_late_hit(tid, regs, breakpoint);
}

void InlineEngine::on_left() {
    if (left_) {
        return;
    }
    drain();
    left_ = true;
    memory_.pages().disable();
    account_.events.on_watermark(kAllTold);
    tell_calls();
}

} // namespace memleax
