// SPDX-License-Identifier: GPL-3.0-or-later
#include "inline_engine.hpp"

#include <numeric>
#include <utility>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

InlineEngine::InlineEngine(const EngineContext& context, EngineHost& host)
    : Int3Engine(context, host), account_(context.account), memory_(context.target),
      threads_(memory_), tree_(memory_), stacks_(context.target),
      patched_(context.target, breakpoints_, memory_, reporter_.unwinder()) {
    reporter_.ask_what_is_recorded([this](Tid tid, const arch::Registers& regs) {
        return look_within(tid, regs) == Within::call;
    });
    breakpoints_.own_codes().add_first(&memory_.pages());
    memory_.pages().before_unmapping([this] { drain(); });
    trap_signal_.action().on_change([this] { tell_answer(); });
    threads_.tick(monotonic_now());
}

InlineEngine::~InlineEngine() {
    trap_signal_.action().on_change(nullptr);
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
        look_at_worker(worker);
        tell_answer();
        for (const SignalActionEntry& action : places.signal_actions) {
            add_gate(action, worker);
        }
        threads_.set_functions(static_cast<int>(follower_.functions().size()));
    }
    tell_if_gave_up();
    tell_own_mappings();
    threads_.tick(monotonic_now());
    drain(); // whoever begins an interval now is told of everything from here on
    return watched;
}

Result<Breakpoint*> InlineEngine::insert(const AllocatorEntry& function, Tid worker) {
    const std::uint64_t begin = function.address.value();
    if (breakpoints_.any_probe_in({begin, begin + arch::kEntryJumpBytes})) {
        log_info("each call of {} stops its thread: there is a probe in its first instructions",
                 function.function->name);
        return Int3Engine::insert(function, worker);
    }
    if (function.has_inner_entry) {
        log_debug("{} keeps its breakpoint: it is entered behind its first instruction, too",
                  function.function->name);
        return Int3Engine::insert(function, worker);
    }
    return patched_.may_have_jump(function, worker, follower_.checks())
               ? breakpoints_.insert_at_entry(function.address, function.size, worker)
               : Int3Engine::insert(function, worker);
}

Result<Breakpoint*> InlineEngine::insert(const SignalActionEntry& action, Tid worker) {
    const std::uint64_t begin = action.address.value();
    return action.has_inner_entry ||
                   breakpoints_.any_probe_in({begin, begin + arch::kEntryJumpBytes})
               ? Int3Engine::insert(action, worker)
               : breakpoints_.insert_at_entry(action.address, action.size, worker);
}

// Without it, each call of it stops its thread.
void InlineEngine::add_gate(const SignalActionEntry& action, Tid worker) {
    Breakpoint* entry = breakpoints_.find(action.address);
    if (entry == nullptr || !entry->is_signal_action) {
        return;
    }
    auto trap = patched_.add_gate(entry, action.of_c_library, worker);
    if (trap && *trap != nullptr) {
        const auto set = set_signal_action(**trap, action.of_c_library);
        trap = set ? std::move(trap) : Result<Breakpoint*>(set.error());
    }
    if (!trap) {
        log_debug("sigaction keeps its breakpoint: {}", trap.error().message());
    }
}

// Then a child by vfork, which asks with all signals blocked, needs no breakpoint.
void InlineEngine::tell_answer() {
    const TrapAction& action = trap_signal_.action();
    patched_.set_answer(action.installed() && action.wanted() == TrapAction::Action{}
                            ? std::optional(action.our_handler())
                            : std::nullopt);
}

void InlineEngine::tell_if_gave_up() {
    if (patched_.gave_up() && !told_that_gave_up_) {
        told_that_gave_up_ = true;
        host_.on_engine_changed();
    }
}

void InlineEngine::look_at_worker(Tid worker) {
    arch::Registers regs;
    if (memory_.mapped() && StoppedThread(worker).get_registers(&regs)) {
        look_at_pointer(worker, StoppedThread(worker).thread_pointer(regs));
    }
}

// Whoever calls lets the thread go on only when the agent knows.
void InlineEngine::look_at_pointer(Tid tid, std::uint64_t pointer) {
    if constexpr (arch::kThreadPointerIsInMemory) {
        const auto word = target_.memory().try_read_object<std::uint64_t>(RemoteAddr(pointer));
        pointers_.see(tid, word == pointer && pointer != 0);
    }
    tell_pointer_place();
}

void InlineEngine::tell_pointer_place() {
    if (memory_.mapped() && told_pointer_from_ != pointers_.from()) {
        told_pointer_from_ = pointers_.from();
        memory_.set_pointer_from(told_pointer_from_);
    }
}

// They are not the program's (--track).
void InlineEngine::tell_own_mappings() {
    const std::vector<AddrRange> ranges = memory_.ranges();
    for (; reported_mappings_ < ranges.size(); ++reported_mappings_) {
        account_.events.on_own_mapping(ranges[reported_mappings_]);
    }
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

// The agent has to forget the stack for its next call to stop; it forgets all, as after a dlopen:
// each stops once more.
void InlineEngine::compare(const std::shared_ptr<StackComparison>& comparison) {
    drain();
    tree_.clear();
    Int3Engine::compare(comparison);
}

void InlineEngine::reset() {
    memory_.forget();
    reporter_.unwinder().forget_own_return_places();
    threads_.forget();
    tree_.clear();
    patched_.reset();
    told_that_gave_up_ = false;
    may_pass_ = true;
    stacks_.forget();
    pointers_.forget();
    told_pointer_from_ = {};
    trapping_.clear();
    reported_mappings_ = 0;
    Int3Engine::reset();
}

// ---- In between ---------------------------------------------------------------------------------

std::int64_t InlineEngine::on_tick() {
    if (left_ || !memory_.mapped()) {
        return Watch::kAnyTime;
    }
    threads_.tick(monotonic_now());
    patched_.look();
    tell_if_gave_up();
    drain();
    tell_calls();
    return threads_.time_to_fill() / 4 * 3; // calls may come faster
}

void InlineEngine::drain() {
    collect();
    tell();
}

void InlineEngine::collect() {
    is_untold_ = memory_.mapped();
    if (is_untold_) {
        threads_.fetch();
        if (may_pass_ && breakpoints_.handler().had_unattended_hit()) {
            host_.on_unattended_hit();
        }
    }
}

// The agent takes it for the end of us and of the guardian, and lets calls of all threads pass that
// should stop. From now on none passes: after our death each costs a signal then, as under int3.
// What was recorded beside calls that nobody saw is not told: a free of a block that one of them
// gave would look like a second one. So this has to come behind a fetch().
void InlineEngine::on_unattended_hit() {
    if (std::exchange(may_pass_, false) && memory_.mapped()) {
        memory_.forget_unattended();
        threads_.fetch();
        (void)threads_.take();
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
    if (threads_.delivered_until().value() != 0 && !left_) {
        account_.events.on_watermark(threads_.delivered_until());
    }
}

void InlineEngine::tell_calls() {
    SeenCalls calls;
    calls.why = stops_;
    calls.stopped = std::accumulate(stops_.begin(), stops_.end(), std::uint64_t{0});
    calls.all = threads_.calls() + calls.stopped - made_anew_;
    account_.events.on_seen_calls(calls);
}

// ---- Leaving ------------------------------------------------------------------------------------

void InlineEngine::begin_to_leave() {
    drain();
    patched_.begin_withdrawal();
}

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
    account_.events.on_watermark(kAllDelivered);
    tell_calls();
}

} // namespace memleax
