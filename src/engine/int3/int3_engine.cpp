// SPDX-License-Identifier: GPL-3.0-or-later
// What each stop means while watching.
#include <csignal>

#include "int3_engine_impl.hpp"
#include "leave/forked_copy.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

std::unique_ptr<Engine> make_int3_engine(Target& target, ModuleMap& modules, EventSink& sink,
                                         EngineObserver& observer, AllocatorSearch& search,
                                         const Int3Options& options) {
    return std::make_unique<Int3Engine>(target, modules, sink, observer, search, options);
}

Int3Engine::Int3Engine(Target& target, ModuleMap& modules, EventSink& sink,
                       EngineObserver& observer, AllocatorSearch& search,
                       const Int3Options& options)
    : target_(target), modules_(modules), sink_(sink), observer_(observer), breakpoints_(target),
      search_(search), calls_(target, modules, breakpoints_, sink, search.api(), options),
      trap_signal_(target, breakpoints_.handler()) {}

Int3Engine::~Int3Engine() {
    leave();
}

void Int3Engine::on_stop(const StopEvent& event) {
    std::visit([this](const auto& stop) { on_stop(stop); }, event);
}

Breakpoint* Int3Engine::our_breakpoint(Tid tid, arch::Registers* regs) {
    Breakpoint* breakpoint = breakpoints_.find_hit(*regs);
    if (breakpoint == nullptr) {
        return nullptr;
    }
    // Behind a one-byte instruction, and in a slot, the pc can stand there without a hit: a SIGTRAP
    // that somebody sent at that moment is not ours. Behind a longer one it cannot.
    if ((breakpoint->original_length == arch::kBreakpointBytes.size() ||
         breakpoint->slot == arch::pc(*regs)) &&
        !target_.is_breakpoint_trap(tid)) {
        return nullptr;
    }
    // As the thread stood before it executed the breakpoint.
    arch::set_pc(*regs, breakpoint->address);
    return breakpoint;
}

bool Int3Engine::move_hit_to_slot(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return true; // killed meanwhile
    }
    const Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint != nullptr) {
        breakpoints_.move_to_slot(tid, regs, *breakpoint);
    }
    return breakpoint != nullptr;
}

void Int3Engine::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    if (!rehits_.empty()) {
        const auto it = rehits_.find(tid);
        if (it != rehits_.end() && it->second.address == breakpoint.address &&
            it->second.sp == arch::sp(regs)) {
            rehits_.erase(it);
            return;
        }
    }
    calls_.on_hit(tid, regs, breakpoint, true);
}

void Int3Engine::on_stop(const TrapStop& stop) {
    arch::Registers regs; // filled by the next line
    if (!target_.get_registers(stop.tid, &regs)) {
        return; // killed meanwhile; its end will be told
    }
    Breakpoint* breakpoint = our_breakpoint(stop.tid, &regs);
    if (breakpoint == nullptr) {
        deliver(stop.tid, SIGTRAP);
        return;
    }
    breakpoints_.move_to_slot(stop.tid, regs, *breakpoint);
    target_.drop_stop_signal(stop.tid);
    trap_signal_.after_hit(stop.tid);
    on_hit(stop.tid, regs, *breakpoint);
    if (breakpoint->is_module_event) {
        auto refreshed = refresh_modules(stop.tid);
        if (!refreshed) {
            log_warning("a change of the loaded modules could not be followed: {}",
                        refreshed.error().message());
        }
        announce_if_ready();
    }
    const bool sets_trap = changes_trap_signal(regs, *breakpoint);
    if (sets_trap && !(breakpoint->of_c_library &&
                       trap_signal_.action().answer_call(stop.tid, breakpoint->address, &regs))) {
        trap_signal_.action().follow_change(stop.tid);
        if (!target_.is_stopped(stop.tid) || target_.has_deferred(stop.tid)) {
            return;
        }
    }
    breakpoints_.continue_from(stop.tid, &regs, *breakpoint);
}

bool Int3Engine::changes_trap_signal(const arch::Registers& regs, const Breakpoint& breakpoint) {
    return breakpoint.is_signal_action && breakpoint.slot && breakpoint.inserted &&
           static_cast<int>(arch::argument(regs, 0)) == SIGTRAP;
}

void Int3Engine::on_stop(const SignalStop& stop) {
    deliver(stop.tid, stop.signal);
}

void Int3Engine::deliver(Tid tid, int signal) {
    move_out_of_slot(tid);
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
        restore_code();
    }
    calls_.on_signal(tid);
    target_.resume(tid, signal);
}

void Int3Engine::move_out_of_slot(Tid tid) {
    arch::Registers regs;
    if (!target_.get_registers(tid, &regs)) {
        return;
    }
    if (!breakpoints_.leave_slot(&regs)) {
        // The frame of this signal will refer to the handler's page.
        may_be_referenced_ = may_be_referenced_ || breakpoints_.handler().contains(arch::pc(regs));
        return;
    }
    target_.set_registers(tid, regs);
    const CodeAddr pc = arch::pc(regs);
    const Breakpoint* breakpoint = breakpoints_.find(pc);
    if (breakpoint != nullptr && breakpoint->inserted) {
        rehits_[tid] = {pc, arch::sp(regs)};
    }
}

void Int3Engine::on_stop(const GroupStop& stop) {
    target_.listen(stop.tid);
}

void Int3Engine::on_stop(const QuietStop& stop) {
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const BirthStop& stop) {
    trap_signal_.on_birth(stop.tid, stop.child);
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const ChildStop& stop) {
    if (stop.shares_memory) {
        target_.adopt_child(stop.tid);
        target_.resume(stop.tid);
        return;
    }
    clean_copy(target_, breakpoints_, trap_signal_, stop.tid, may_be_referenced_);
    if (!observer_.take_child(stop.tid, ChildOrigin::forked)) {
        target_.detach(stop.tid);
    }
    note_if_all_gone();
}

void Int3Engine::on_stop(const ExecStop& stop) {
    if (has_lost_privileges(stop.tid)) {
        log_warning("process {} executes {} without the privileges that this file gives: the "
                    "kernel grants none to a traced process, unless its tracer has CAP_SYS_PTRACE",
                    stop.tid.value(), executable_path(stop.tid));
    }
    trap_signal_.restore_after_exec(stop.tid, stop.former);
    if (stop.tid != target_.pid()) { // a vfork child that has its own program now
        calls_.on_thread_gone(stop.tid);
        trap_signal_.on_thread_gone(stop.tid);
        rehits_.erase(stop.tid);
        if (!observer_.take_child(stop.tid, ChildOrigin::executed)) {
            target_.detach(stop.tid);
        }
        note_if_all_gone();
        return;
    }
    breakpoints_.forget_all();
    calls_.reset();
    rehits_.clear();
    entry_points_ = mapping_entry_points_ = 0;
    modules_.forget_all();
    auto reopened = target_.reopen_memory();
    if (reopened) {
        reopened = trap_signal_.install(stop.tid);
    }
    if (announced_) {
        sink_.on_memory_gone(monotonic_now());
    }
    auto refreshed = reopened ? refresh_modules(stop.tid) : std::move(reopened);
    calls_.set_first_mappings(modules_.mappings());
    if (arch::Registers regs; !refreshed && target_.get_registers(stop.tid, &regs)) {
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
    target_.resume(stop.tid);
}

void Int3Engine::on_stop(const ThreadGone& stop) {
    calls_.on_thread_gone(stop.tid);
    trap_signal_.on_thread_gone(stop.tid);
    rehits_.erase(stop.tid);
    if (stop.tid == target_.pid()) {
        end_status_ = stop.status;
    }
    note_if_all_gone();
}

void Int3Engine::on_silence() {
    target_.forget_dead_children();
    note_if_all_gone();
}

void Int3Engine::note_if_all_gone() {
    if (!target_gone_ && target_.threads().empty() && target_.expected_children().empty()) {
        on_all_gone();
    }
}

void Int3Engine::on_all_gone() {
    target_gone_ = true;
    breakpoints_.forget_all();
    observer_.on_ended(end_status_);
}

} // namespace memleax
