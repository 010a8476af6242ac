// SPDX-License-Identifier: GPL-3.0-or-later
/// How calls are seen. What is the same for all engines (threads, signals, forks, exec, modules,
/// leaving) is the LifeCycle's.
#pragma once

#include <memory>
#include <string>

#include "memleax/base/error.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_signal.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "memleax/unwind/unwinder_choice.hpp"
#include "watched_places.hpp"

namespace memleax {

/// What an engine works on and with; it outlives the engine.
struct EngineContext {
    Target& target;
    ModuleMap& modules;
    BreakpointTable& breakpoints;
    TrapSignal& trap_signal;
    CallFollower& follower;
    AccountAccess account;
    UnwinderChoice unwinder;
};

/// Whom an engine tells of what is not a call.
class EngineHost {
  public:
    virtual ~EngineHost() = default;
    /// The dynamic linker has mapped or unmapped something; the thread is stopped.
    virtual void on_module_event(Tid tid) = 0;
    /// Its name is another one from now on.
    virtual void on_engine_changed() = 0;
    /// TrapHandler::had_unattended_hit().
    virtual void on_unattended_hit() = 0;
};

/// Invariants: whatever an engine resumes has its pc in the original code or where it may go on
/// after our death; no signal is delivered to a thread whose pc is in code of the engine's, but
/// where leave_own_code() says so, and then whoever leaves looks for the frames that hold such a
/// pc.
class Engine {
  public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual const char* name() const = 0;

    /// Watches these, with the help of a stopped thread. Each function that is watched is made
    /// known to the follower.
    virtual Result<void> watch(const WatchedPlaces& places, Tid worker) = 0;
    /// The code in this range is gone.
    virtual void forget(AddrRange range) = 0;
    virtual void modules_changed() = 0;
    /// The address space is gone.
    virtual void reset() = 0;
    /// The bits of a return address that are a signature; see Unwinder.
    virtual void set_signature_mask(std::uint64_t mask) = 0;

    /// A thread has stopped with SIGTRAP. True if that was the engine's doing: it is dealt with.
    virtual bool on_trap(Tid tid) = 0;
    /// See StopHandler.
    virtual bool move_hit_to_slot(Tid tid) = 0;
    [[nodiscard]] virtual bool takes_long(Tid /*tid*/) const { return false; }
    /// A signal is about to be delivered to a stopped thread: puts its pc into the original code.
    /// False if it cannot be; then the frame of this signal will refer to a page of ours.
    [[nodiscard]] virtual bool leave_own_code(Tid tid) = 0;
    /// A thread has stopped with SIGSEGV. True if that was an instruction of ours, and not the
    /// target's: it is led past it, and is to get no signal.
    [[nodiscard]] virtual bool takes_fault(Tid /*tid*/) { return false; }
    /// Is any probe watched that this text of ProbeRequests::all() asks for?
    [[nodiscard]] virtual bool watches_probe(const std::string& request) const = 0;
    /// Was any of them refused, with a warning?
    [[nodiscard]] virtual bool has_refused_probe(const std::string& request) const = 0;
    /// Knows the frames that the engine itself puts on stacks.
    [[nodiscard]] virtual Unwinder& unwinder() = 0;
    /// See Watch.
    virtual void compare(const std::shared_ptr<StackComparison>& comparison) = 0;
    virtual void on_thread_gone(Tid tid) = 0;
    /// Somebody whom we do not trace has run into a breakpoint, and that is still to be forgotten:
    /// calls of others may have passed unseen since.
    virtual void on_unattended_hit() {}
    /// A thread stands in a stop that means nothing by itself: its first one, or an interrupt's.
    virtual void on_quiet_stop(Tid /*tid*/) {}
    /// Now and then, while nothing may happen. See Watch.
    virtual std::int64_t on_tick() { return Watch::kAnyTime; }

    /// What takes its time before restore_code(), while stops are served: in the course of some
    /// ticks.
    virtual void begin_to_leave() {}
    [[nodiscard]] virtual bool is_ready_to_leave() const { return true; }
    /// The original code goes back. The functions that begin blocks first: a block must not be
    /// counted whose end could not be seen.
    virtual void restore_code() = 0;
    /// After that: a thread ran into this breakpoint just before.
    virtual void on_late_hit(Tid tid, const arch::Registers& regs,
                             const Breakpoint& breakpoint) = 0;
    /// The target has been left, or what is of ours in it stays.
    virtual void on_left() {}
};

std::unique_ptr<Engine> make_engine(const EngineContext& context, EngineHost& host,
                                    EngineChoice choice);

} // namespace memleax
