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
      threads_(memory_), tree_(memory_), proof_(context.target, reporter_.unwinder()) {
    breakpoints_.own_codes().add_first(&memory_.pages());
    memory_.pages().before_unmapping([this] { drain(); });
    threads_.tick(monotonic_now());
}

InlineEngine::~InlineEngine() {
    breakpoints_.own_codes().remove(&memory_.pages());
}

// ---- What is patched ----------------------------------------------------------------------------

bool InlineEngine::can_be_inline(const AllocatorEntry& entry) {
    const AllocatorFunction& function = *entry.function;
    const bool is_plain = function.family == kMemory && function.origin.empty() &&
                          function.mapping == MappingCall::none &&
                          function.out_argument < agent::kOutArguments &&
                          function.next_argument < 0 && !function.is_descriptor;
    // An exception must not pass the agent's frame.
    const bool may_throw = function.throws && entry.nothrow_twin.value() == 0;
    constexpr int kArguments = 4; // that the agent can read
    const bool are_near = function.pointer_argument < kArguments &&
                          function.size_argument < kArguments &&
                          function.count_argument < kArguments;
    const bool needs_pointer = function.call != AllocatorCall::allocate;
    const bool needs_size = function.call != AllocatorCall::free;
    return is_plain && !may_throw && are_near &&
           (!needs_pointer || function.pointer_argument >= 0) &&
           (!needs_size || function.size_argument >= 0);
}

Result<void> InlineEngine::watch(const WatchedPlaces& places, Tid worker) {
    const auto first = static_cast<int>(follower_.functions().size());
    if (!memory_.mapped() && !gave_up_) {
        const bool any =
            std::any_of(places.functions.begin(), places.functions.end(), can_be_inline);
        if (auto mapped = any ? memory_.map(worker) : Result<void>(); !mapped) {
            log_debug("every call stops its thread: {}", mapped.error().message());
            gave_up_ = true;
        }
    }
    // What is recorded then is read while it can be.
    for (const CodeAddr call : places.last_calls) {
        if (const auto inserted = breakpoints_.insert(call, worker); !inserted) {
            log_debug("the end is not watched: {}", inserted.error().message());
        }
    }
    auto watched = Int3Engine::watch(places, worker);
    if (!watched || gave_up_ || !memory_.mapped()) {
        return watched;
    }
    const auto last = static_cast<int>(follower_.functions().size());
    patched_.resize(static_cast<std::size_t>(last));
    std::vector<AddrRange> behind_entries;
    for (int number = first; number < last; ++number) {
        const AllocatorEntry function = follower_.function(number);
        Breakpoint* entry = breakpoints_.find(function.address);
        if (number >= static_cast<int>(agent::kMaxFunctions) || entry == nullptr ||
            !entry->takes_jump || !entry->slot || entry->entry != number ||
            !can_be_inline(function)) {
            continue;
        }
        if (auto done = patch(function, number, entry, worker); !done) {
            log_debug("{} keeps its breakpoint: {}", function.function->name,
                      done.error().message());
            continue;
        }
        const std::uint64_t at = function.address.value();
        behind_entries.push_back({at + 1, at + arch::kEntryJumpBytes});
    }
    threads_.set_functions(last);
    if (!behind_entries.empty()) {
        proof_.begin(behind_entries);
        proof_.look_at(worker);
        waits_for_proof_ = true;
        if (proof_.is_done()) { // it is the only thread
            put_jumps();
        }
    }
    return watched;
}

Result<Breakpoint*> InlineEngine::insert(const AllocatorEntry& function, Tid worker) {
    return can_be_inline(function) && memory_.mapped()
               ? breakpoints_.insert_at_entry(function.address, function.size, worker)
               : Int3Engine::insert(function, worker);
}

Result<void> InlineEngine::patch(const AllocatorEntry& function, int number, Breakpoint* entry,
                                 Tid worker) {
    agent::Function described;
    described.number = static_cast<std::uint8_t>(number);
    switch (function.function->call) {
    case AllocatorCall::free:
        described.kind = agent::Function::Kind::free;
        break;
    case AllocatorCall::realloc:
        described.kind = agent::Function::Kind::reallocate;
        break;
    case AllocatorCall::allocate:
        described.kind = agent::Function::Kind::allocate;
        break;
    }
    described.pointer_argument = static_cast<std::int8_t>(function.function->pointer_argument);
    described.size_argument = static_cast<std::int8_t>(function.function->size_argument);
    described.count_argument = static_cast<std::int8_t>(function.function->count_argument);
    described.out_argument = static_cast<std::int8_t>(function.function->out_argument);
    described.nothrow_argument = static_cast<std::int8_t>(function.function->nothrow_argument);
    described.called = function.nothrow_twin.value();
    const std::size_t places_before = memory_.return_places().size();
    auto thunk = memory_.add_function(function.address, *entry->slot, described, worker);
    if (!thunk) {
        return std::move(thunk).error();
    }
    for (std::size_t i = places_before; i < memory_.return_places().size(); ++i) {
        reporter_.unwinder().add_own_return_place(memory_.return_places()[i]);
    }
    auto trap = breakpoints_.insert(thunk->trap, worker);
    if (!trap) {
        return std::move(trap).error();
    }
    (*trap)->entry = number;
    (*trap)->stands_for = function.address;
    patched_[static_cast<std::size_t>(number)] = {
        entry, *trap, thunk->entry, described.kind == agent::Function::Kind::free, false};
    return {};
}

void InlineEngine::put_jumps() {
    waits_for_proof_ = false;
    proof_.forget();
    std::vector<BreakpointTable::Jump> jumps;
    for (Patched& function : patched_) {
        if (function.entry != nullptr && !function.has_jump) {
            jumps.push_back({function.entry, function.thunk});
        }
    }
    memory_.enable();
    if (const auto put = breakpoints_.put_jumps(jumps); !put) {
        log_info("every call stops its thread: {}", put.error().message());
        gave_up_ = true;
        return;
    }
    for (Patched& function : patched_) {
        function.has_jump = function.entry != nullptr;
    }
    log_debug("{} functions are watched without stops", jumps.size());
}

void InlineEngine::forget(AddrRange range) {
    drain();
    for (Patched& function : patched_) {
        if (function.entry != nullptr && range.contains(function.entry->address().value())) {
            const std::uint64_t trap = function.trap->address().value();
            breakpoints_.forget({trap, trap + 1});
            function = {};
        }
    }
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
    proof_.forget();
    patched_.clear();
    trapping_.clear();
    waits_for_proof_ = gave_up_ = false;
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
    if (waits_for_proof_) {
        proof_.look_at(tid);
    }
    collect();
    const auto number = static_cast<std::size_t>(breakpoint->entry);
    stopped_calls_ += breakpoint->entry >= 0 ? 1 : 0;
    if (breakpoint->entry >= 0 && number < patched_.size() && breakpoint == patched_[number].trap &&
        patched_[number].has_jump) {
        const Way way = decide(tid, regs, *breakpoint, patched_[number]);
        made_anew_ += way == Way::again ? 1 : 0;
        if (way != Way::stop) {
            target_.drop_stop_signal(tid);
            trap_signal_.after_hit(tid);
            go_on_at(tid, &regs,
                     way == Way::again ? breakpoint->place() : *patched_[number].entry->slot);
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
                                       const Breakpoint& breakpoint, const Patched& function) {
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
    proof_.on_thread_gone(tid);
    trapping_.erase(tid);
    Int3Engine::on_thread_gone(tid);
}

void InlineEngine::on_quiet_stop(Tid tid) {
    if (left_ || !memory_.mapped()) {
        return;
    }
    if (waits_for_proof_) {
        proof_.look_at(tid);
    }
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
    if (waits_for_proof_) {
        proof_.look();
        if (proof_.is_done()) {
            put_jumps();
        }
    }
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
    breakpoints_.withdraw_jumps();
    for (Patched& function : patched_) {
        function.has_jump = false;
    }
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
