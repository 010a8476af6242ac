// SPDX-License-Identifier: GPL-3.0-or-later
// What each stop means while watching; and leaving.
#include "life_cycle.hpp"

#include <algorithm>
#include <csignal>

#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

std::unique_ptr<Watch> make_watch(Target& target, ModuleMap& modules, AccountAccess account,
                                  WatchObserver& observer, AllocatorSearch& search,
                                  const FollowOptions& options, EngineChoice engine,
                                  UnwinderChoice unwinder) {
    return std::make_unique<LifeCycle>(target, modules, account, observer, search, options, engine,
                                       unwinder);
}

LifeCycle::LifeCycle(Target& target, ModuleMap& modules, AccountAccess account,
                     WatchObserver& observer, AllocatorSearch& search, const FollowOptions& options,
                     EngineChoice engine, UnwinderChoice unwinder)
    : target_(target), modules_(modules), account_(account), observer_(observer), search_(search),
      breakpoints_(target), trap_signal_(target, breakpoints_.handler()),
      environment_(target, modules, observer),
      follower_(environment_, account, search.api(), options),
      engine_(
          make_engine({target, modules, breakpoints_, trap_signal_, follower_, account, unwinder},
                      *this, engine)),
      earlier_(target, modules, [this]() -> Unwinder& { return engine_->unwinder(); }),
      held_hits_(target) {}

// Should that throw (no memory), we end, and the guardian leaves in our place.
LifeCycle::~LifeCycle() { // NOLINT(bugprone-exception-escape)
    LifeCycle::leave();
}

void LifeCycle::on_stop(const StopEvent& event) {
    std::visit([this](const auto& stop) { on_stop(stop); }, event);
    if (held_hits_.is_on()) {
        held_hits_.after_stop(tid_of(event));
    }
}

void LifeCycle::on_stop(const TrapStop& stop) {
    if (held_hits_.is_on() && hits_an_entry(stop.tid) && move_hit_to_slot(stop.tid)) {
        held_hits_.hold(stop.tid);
        return;
    }
    look_for_unattended_hit();
    const bool is_outside = earlier_.any() && hits_more_than_a_probe(stop.tid);
    if (!engine_->on_trap(stop.tid)) {
        deliver(stop.tid, SIGTRAP);
    } else if (is_outside) {
        earlier_.on_hit(stop.tid);
        tell_if_all_are_seen();
    }
}

const Breakpoint* LifeCycle::find_hit(Tid tid) {
    arch::Registers regs;
    return StoppedThread(tid).get_registers(&regs) ? breakpoints_.find_hit(regs) : nullptr;
}

// A probe may lie anywhere, also within the allocator.
bool LifeCycle::hits_more_than_a_probe(Tid tid) {
    const Breakpoint* hit = find_hit(tid);
    return hit != nullptr &&
           (hit->entry >= 0 || hit->is_return || hit->is_module_event || hit->is_signal_action);
}

// Of a function that is watched, in the program's own code: it is in no allocator by way of ours,
// and has no pending call of which we wait for the end.
bool LifeCycle::hits_an_entry(Tid tid) {
    const Breakpoint* hit = find_hit(tid);
    return hit != nullptr && hit->entry >= 0 && !hit->stands_for && hit->slot && !hit->is_return &&
           !hit->is_module_event && !hit->is_signal_action;
}

void LifeCycle::on_stop(const SignalStop& stop) {
    constexpr int kMostAtOnce = 64; // one of each number
    deliver(stop.tid, stop.signal);
    for (int i = 0; i < kMostAtOnce; ++i) {
        const auto next = target_.signals().next_stop_at_once(stop.tid);
        const auto* signal = next ? std::get_if<SignalStop>(&*next) : nullptr;
        if (signal == nullptr) {
            if (next) {
                on_stop(*next);
            }
            return;
        }
        deliver(stop.tid, signal->signal);
    }
}

void LifeCycle::deliver(Tid tid, int signal) {
    if (signal == SIGSEGV && engine_->takes_fault(tid)) {
        target_.resume(tid);
        return;
    }
    if (!engine_->leave_own_code(tid)) {
        may_be_referenced_ = true;
    }
    bool needs_own_code = false;
    if (signal == SIGTRAP) {
        const TrapSignal::Delivery trap = trap_signal_.before_delivery(tid);
        signal = trap.signal;
        needs_own_code = trap.needs_own_code;
    } else if ((signal_bit(signal) & kCoreSignals) != 0) {
        const auto info = try_read_process_info(tid);
        needs_own_code =
            !info || ((info->caught_signals | info->ignored_signals) & signal_bit(signal)) == 0;
    }
    // A core is to hold the original code. One by vfork ends alone, and its parent's is the same
    // memory.
    const auto thread = target_.threads().find(tid);
    if (needs_own_code && thread != target_.threads().end() && !thread->second.is_child_process) {
        engine_->restore_code();
        (void)engine_->leave_own_code(tid); // now also from where a jump was in the way
    }
    follower_.on_signal(tid);
    target_.resume(tid, signal);
}

void LifeCycle::on_stop(const GroupStop& stop) {
    target_.listen(stop.tid);
    tell_if_stopped();
}

void LifeCycle::tell_if_stopped() {
    const auto& threads = target_.threads();
    const bool stopped = std::any_of(threads.begin(), threads.end(), [](const auto& thread) {
        return thread.second.state == TracedThread::State::listening;
    });
    if (stopped != stopped_) {
        stopped_ = stopped;
        observer_.on_stopped(stopped);
    }
}

void LifeCycle::on_stop(const QuietStop& stop) {
    engine_->on_quiet_stop(stop.tid);
    target_.resume(stop.tid);
    if (stopped_) {
        tell_if_stopped();
    }
}

void LifeCycle::on_stop(const BirthStop& stop) {
    trap_signal_.on_birth(stop.tid, stop.child);
    if (stop.by_fork) { // it may end, or execute another program, before the child gets to its stop
        own_pages_.look(target_.memory(), breakpoints_.own_codes());
    }
    target_.resume(stop.tid);
}

void LifeCycle::on_stop(const ChildStop& stop) {
    if (stop.shares_memory) {
        target_.adopt_child(stop.tid);
        target_.resume(stop.tid);
        return;
    }
    own_pages_.look(target_.memory(), breakpoints_.own_codes());
    const OwnPages none;
    clean_copy(target_, breakpoints_, trap_signal_, stop.tid,
               may_be_referenced_ ? none : own_pages_);
    trap_signal_.on_thread_gone(stop.tid);
    if (!observer_.take_child(stop.tid, ChildOrigin::forked)) {
        target_.detach(stop.tid);
    }
    note_if_all_gone();
}

void LifeCycle::on_stop(const ExecStop& stop) {
    if (has_lost_privileges(stop.tid)) {
        log_warning("process {} executes {} without the privileges that this file gives: the "
                    "kernel grants none to a traced process, unless its tracer has CAP_SYS_PTRACE",
                    stop.tid.value(), executable_path(stop.tid));
    }
    trap_signal_.restore_after_exec(stop.tid, stop.former);
    if (stop.tid == target_.pid()) {
        on_own_exec(stop.tid);
    } else {
        on_childs_exec(stop.tid);
    }
}

// One by vfork, which has its own program now.
void LifeCycle::on_childs_exec(Tid child) {
    forget_thread(child);
    if (!observer_.take_child(child, ChildOrigin::executed)) {
        target_.detach(child);
    }
    note_if_all_gone();
}

// Its table alone knows what is in their copies.
void LifeCycle::clean_children_of_former_program() {
    const Patience patience(Target::kMostMsForNewborns);
    while (const auto child = target_.await_newborn(patience)) {
        on_stop(*child);
    }
}

void LifeCycle::on_own_exec(Tid tid) {
    clean_children_of_former_program();
    observer_.before_modules_change();
    breakpoints_.forget_all();
    trap_signal_.forget();
    follower_.reset();
    engine_->reset();
    earlier_.forget_all();
    own_pages_ = {};
    may_be_referenced_ = false;
    told_of_untraced_ = false;
    look_pause_ = {};
    tell_if_all_are_seen();
    modules_.forget_all();
    auto reopened = target_.reopen_memory();
    const bool is_foreign = StoppedThread(tid).executes_foreign_code(); // which is not watched
    if (reopened && !is_foreign) {
        reopened = trap_signal_.install(tid);
    }
    if (announced_) {
        account_.events.on_memory_gone(monotonic_now());
    }
    auto refreshed = reopened && !is_foreign ? refresh_modules(tid) : std::move(reopened);
    environment_.set_first_mappings(modules_.mappings());
    if (arch::Registers regs; !refreshed && StoppedThread(tid).get_registers(&regs)) {
        log_error("{}", refreshed.error().message()); // else its end is about to be told
    }
    tell_mapped_before();
    if (!observer_.on_exec()) {
        leave();
        on_all_gone();
        return;
    }
    if (announced_) {
        log_info("process {} executes another program, which is watched from now on",
                 target_.pid().value());
    }
    announce_if_ready();
    target_.resume(tid);
}

void LifeCycle::forget_thread(Tid tid) {
    follower_.on_thread_gone(tid);
    trap_signal_.on_thread_gone(tid);
    engine_->on_thread_gone(tid);
    held_hits_.on_thread_gone(tid);
    if (earlier_.any()) {
        earlier_.forget(tid);
        tell_if_all_are_seen();
    }
}

void LifeCycle::on_stop(const ThreadGone& stop) {
    forget_thread(stop.tid);
    if (stop.tid == target_.pid()) {
        end_status_ = stop.status;
    }
    note_if_all_gone();
}

std::vector<AddrRange> LifeCycle::own_memory() {
    std::vector<AddrRange> result = breakpoints_.own_codes().ranges();
    const std::vector<AddrRange> data = breakpoints_.own_codes().data_ranges();
    result.insert(result.end(), data.begin(), data.end());
    return result;
}

void LifeCycle::on_silence() {
    target_.forget_dead_children();
    note_if_all_gone();
}

std::int64_t LifeCycle::on_tick() {
    look_for_unattended_hit();
    target_.signals().send_held_to_running();
    if (earlier_.any()) {
        earlier_.look();
        tell_if_all_are_seen();
    }
    const std::int64_t within = engine_->on_tick();
    if (!own_pages_.knows_all(breakpoints_.own_codes())) { // the agent's come meanwhile
        own_pages_.look(target_.memory(), breakpoints_.own_codes());
    }
    held_hits_.look();
    if (held_hits_.is_on() && held_hits_.is_over() && !held_hits_.may_stay()) {
        release_held();
    }
    return within;
}

// They go on, as if they had come only now.
void LifeCycle::release_held() {
    for (const Tid tid : held_hits_.release()) {
        on_stop(TrapStop{tid});
    }
}

// What stands in line may be the end of the first thread, with its status, or a copy that is to be
// cleaned.
void LifeCycle::note_if_all_gone() {
    if (!target_gone_ && target_.threads().empty() && target_.expected_children().empty() &&
        !target_.has_deferred()) {
        on_all_gone();
    }
}

void LifeCycle::on_all_gone() {
    target_gone_ = true;
    engine_->on_left();
    breakpoints_.forget_all();
    observer_.on_ended(end_status_);
}

void LifeCycle::begin_to_leave(bool alone) {
    if (armed_ && !target_gone_) {
        engine_->begin_to_leave();
        if (alone) { // else they would wait until others have been left
            held_hits_.begin();
        }
    }
}

bool LifeCycle::is_ready_to_leave() const {
    return !armed_ || target_gone_ || (engine_->is_ready_to_leave() && held_hits_.is_over());
}

// The original code goes back, and then everybody is moved out of what was ours.
void LifeCycle::leave() {
    if (!armed_) {
        return;
    }
    armed_ = false;
    if (target_gone_) {
        breakpoints_.forget_all();
        return;
    }
    for (const Tid tid : held_hits_.release()) {
        target_.defer(TrapStop{tid});
    }
    engine_->restore_code();
    if (breakpoints_.handler().had_unattended_hit()) {
        on_unattended_hit();
    }
    // One that has not been noticed may be at a breakpoint, or in a slot, all the same. Each
    // process of the machine is looked at for that, which would take long behind a thousand forks.
    const auto seized = target_.was_running() ? target_.seize_untraced() : Result<void>();
    Detacher detacher(target_, breakpoints_, trap_signal_, *this, may_be_referenced_,
                      [this]() -> Unwinder& { return engine_->unwinder(); });
    detacher.set_computing(held_hits_.computing());
    detacher.set_known_pages(own_pages_);
    if (!seized) {
        log_debug("{}", seized.error().message());
        detacher.keep_pages();
    }
    detacher.complete();
    engine_->on_left();
    if (detacher.target_ended()) {
        on_all_gone();
    }
}

void LifeCycle::on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    engine_->on_late_hit(tid, regs, breakpoint);
}

void LifeCycle::on_thread_gone(const ThreadGone& gone) {
    follower_.on_thread_gone(gone.tid);
    if (gone.tid == target_.pid()) {
        end_status_ = gone.status;
    }
}

} // namespace memleax
