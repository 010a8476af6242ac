// SPDX-License-Identifier: GPL-3.0-or-later
#include "int3_engine.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

Int3Engine::Int3Engine(const EngineContext& context, EngineHost& host)
    : host_(host), target_(context.target), breakpoints_(context.breakpoints),
      trap_signal_(context.trap_signal), follower_(context.follower),
      reporter_(context.target, context.modules, context.breakpoints, context.follower,
                context.unwinder),
      probes_(context.target, context.breakpoints, context.follower, context.account.events,
              reporter_) {}

Breakpoint* Int3Engine::our_breakpoint(Tid tid, arch::Registers* regs) {
    Breakpoint* breakpoint = breakpoints_.find_hit(*regs);
    if (breakpoint == nullptr) {
        return nullptr;
    }
    // Behind a one-byte instruction, and where we move a hit to, the pc can stand without one: a
    // SIGTRAP that somebody sent at that moment is not ours. Behind a longer one it cannot.
    if ((breakpoint->original_length == arch::kBreakpointBytes.size() ||
         breakpoint->slot == arch::pc(*regs) || breakpoint->address() == arch::pc(*regs)) &&
        !StoppedThread(tid).is_breakpoint_trap()) {
        return nullptr;
    }
    // As the thread stood before it executed the breakpoint.
    arch::set_pc(*regs, breakpoint->place());
    return breakpoint;
}

bool Int3Engine::move_hit_to_slot(Tid tid) {
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return true; // killed meanwhile
    }
    const Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint != nullptr) {
        breakpoints_.move_to_slot(tid, regs, *breakpoint);
    }
    return breakpoint != nullptr;
}

void Int3Engine::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    if (told_calls_.take(tid, breakpoint.place(), regs)) {
        return;
    }
    if (breakpoint.probe >= 0) {
        probes_.on_hit(tid, regs, breakpoint);
    }
    reporter_.on_hit(tid, regs, breakpoint, CallFollower::Follow::to_return);
}

bool Int3Engine::on_trap(Tid tid) {
    arch::Registers regs; // filled by the next line
    if (!StoppedThread(tid).get_registers(&regs)) {
        return true; // killed meanwhile; its end will be told
    }
    Breakpoint* breakpoint = our_breakpoint(tid, &regs);
    if (breakpoint == nullptr) {
        return false;
    }
    breakpoints_.move_to_slot(tid, regs, *breakpoint);
    target_.drop_stop_signal(tid);
    // A child by vfork that comes to sigaction's gate asks for all signals' actions, which it does
    // before it executes its program: no other hit is to be expected that would need the handler.
    const bool is_asking_child = breakpoint->sets_trap_action(regs) && breakpoint->stands_for &&
                                 !trap_signal_.action().is_shared_by(tid);
    if (!is_asking_child) {
        trap_signal_.after_hit(tid);
    }
    on_hit(tid, regs, *breakpoint);
    before_going_on(tid);
    if (breakpoint->is_module_event) {
        host_.on_module_event(tid);
    }
    if (breakpoint->sets_trap_action(regs) && !set_trap_action(tid, &regs, *breakpoint)) {
        return true;
    }
    breakpoints_.continue_from(tid, &regs, *breakpoint);
    return true;
}

bool Int3Engine::set_trap_action(Tid tid, arch::Registers* regs, const Breakpoint& breakpoint) {
    TrapAction& action = trap_signal_.action();
    const bool is_answered =
        breakpoint.of_c_library && action.answer_call(tid, breakpoint.place(), regs);
    breakpoints_.move_on_to_slot(tid, *regs, breakpoint);
    if (!is_answered) {
        action.follow_change(tid);
    }
    return target_.is_stopped(tid) && !target_.has_deferred(tid);
}

bool Int3Engine::leave_own_code(Tid tid) {
    arch::Registers regs;
    if (!StoppedThread(tid).get_registers(&regs)) {
        return true;
    }
    const MoveOut move = breakpoints_.own_codes().move_out(&regs);
    if (move != MoveOut::moved) {
        return move == MoveOut::outside;
    }
    StoppedThread(tid).set_registers(regs);
    const Breakpoint* breakpoint = breakpoints_.find(arch::pc(regs));
    if (breakpoint != nullptr && breakpoint->inserted) {
        told_calls_.add(tid, regs);
    }
    return true;
}

void Int3Engine::lift(Breakpoint& breakpoint) {
    breakpoints_.restore(breakpoint);
    told_calls_.forget_at(breakpoint.address());
}

void Int3Engine::reset() {
    told_calls_.clear();
    probes_.reset();
    reporter_.reset();
}

Result<void> Int3Engine::set_signal_action(Breakpoint& breakpoint, bool of_c_library) {
    breakpoint.is_signal_action = true;
    breakpoint.of_c_library = of_c_library;
    return breakpoints_.hold_unwatched(breakpoint);
}

Result<void> Int3Engine::watch(const WatchedPlaces& places, Tid worker) {
    for (const CodeAddr event : places.module_events) {
        auto inserted = breakpoints_.insert(event, worker);
        if (!inserted) {
            return std::move(inserted).error();
        }
        (*inserted)->is_module_event = true;
    }
    // Before the functions: one that has a probe in its first instructions keeps its breakpoint.
    probes_.watch(places.probes, worker);
    for (const SignalActionEntry& action : places.signal_actions) {
        auto inserted = insert(action, worker);
        const auto watched = inserted ? set_signal_action(**inserted, action.of_c_library)
                                      : Result<void>(std::move(inserted).error());
        // Without it, what the target sets is found out later (TrapSignal).
        if (!watched) {
            log_debug("sigaction at {:#x}: {}", action.address.value(), watched.error().message());
        }
    }
    for (const AllocatorEntry& function : places.functions) {
        auto inserted = insert(function, worker);
        if (!inserted) {
            return std::move(inserted).error().while_doing(
                fmt::format("cannot watch {}", function.function->name));
        }
        (*inserted)->entry = follower_.add_function(function);
        log_debug("breakpoint at {} ({:#x})", function.function->name, function.address.value());
    }
    return {};
}

Result<Breakpoint*> Int3Engine::insert(const AllocatorEntry& function, Tid worker) {
    return breakpoints_.insert(function.address, worker);
}

Result<Breakpoint*> Int3Engine::insert(const SignalActionEntry& action, Tid worker) {
    return breakpoints_.insert(action.address, worker);
}

void Int3Engine::restore_code() {
    std::vector<Breakpoint*> entries;
    for (Breakpoint* breakpoint : breakpoints_.all()) {
        if (breakpoint->entry >= 0) {
            entries.push_back(breakpoint);
        }
    }
    std::sort(entries.begin(), entries.end(), [this](const Breakpoint* a, const Breakpoint* b) {
        return follower_.function(a->entry).function->call >
               follower_.function(b->entry).function->call;
    });
    for (Breakpoint* breakpoint : entries) {
        breakpoints_.restore(*breakpoint);
    }
    breakpoints_.restore_all();
}

void Int3Engine::on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) {
    if (breakpoint.probe >= 0) {
        probes_.on_hit(tid, regs, breakpoint);
    }
    reporter_.on_hit(tid, regs, breakpoint, CallFollower::Follow::not_at_all);
}

} // namespace memleax
