// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "allocation_calls.hpp"
#include "leave/detacher.hpp"
#include "memleax/engine/int3_engine.hpp"
#include "memleax/target/trap_signal.hpp"

namespace memleax {

/// Dispatches stops. Invariants: a breakpoint is lifted only when the target is left; whatever this
/// engine resumes has its pc in the original code or at the start of a slot; a signal is never
/// delivered to a thread whose pc is in a slot, so no signal frame ever holds such a pc.
class Int3Engine final : public Engine, DetachObserver {
  public:
    Int3Engine(Target& target, ModuleMap& modules, EventSink& sink, EngineObserver& observer,
               AllocatorSearch& search, const Int3Options& options);
    ~Int3Engine() override;

    [[nodiscard]] const char* name() const override { return "int3"; }
    Result<void> arm() override;
    void on_stop(const StopEvent& event) override;
    bool move_hit_to_slot(Tid tid) override;
    void on_silence() override;
    void leave() override;

  private:
    /// A thread's signal was delivered while it stood before a displaced instruction: it went back
    /// to the breakpoint, and its next hit there is not a new call.
    struct Rehit {
        CodeAddr address;
        RemoteAddr sp;
    };

    // Stops, while watching. Each leaves the thread running, or where it belongs.
    void on_stop(const TrapStop& stop);
    void on_stop(const SignalStop& stop);
    void on_stop(const GroupStop& stop);
    void on_stop(const QuietStop& stop);
    void on_stop(const ChildStop& stop);
    void on_stop(const BirthStop& stop);
    void on_stop(const ExecStop& stop);
    void on_stop(const ThreadGone& stop);

    /// The end of the first thread is told last, but not at all if it had ended before we came; and
    /// a child that shares the memory, or a copy that is not clean yet, may outlive it.
    void note_if_all_gone();
    void on_all_gone();

    /// Our breakpoint that this TrapStop is about, with the thread's registers; null if the SIGTRAP
    /// is the target's own.
    Breakpoint* our_breakpoint(Tid tid, arch::Registers* regs);
    /// Counts what the hit means, unless it is a repeated one.
    void on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    void deliver(Tid tid, int signal);
    /// The call of sigaction(3) is SIGTRAP's, and its thread can be let through it.
    [[nodiscard]] static bool changes_trap_signal(const arch::Registers& regs,
                                                  const Breakpoint& breakpoint);
    void move_out_of_slot(Tid tid);

    /// Where breakpoints belong in some modules. Found by a walk over their symbols, which takes
    /// milliseconds in a large program.
    struct Places {
        std::vector<AllocatorEntry> entries; ///< in the order in which they go in
        std::vector<CodeAddr> module_events;
        std::vector<SignalActionEntry> signal_actions;
    };
    [[nodiscard]] Places find_places(const std::vector<std::shared_ptr<const Module>>& modules);
    Result<Tid> borrow_first();
    /// The first time; unless the process executes another program before all is done.
    Result<void> patch_first(const Places& places, bool* executes);
    Result<void> patch(const Places& places, Tid worker);
    Result<void> refresh_modules(Tid worker);
    void announce_if_ready();
    void tell_mapped_before();
    /// Of the user's functions.
    void warn_of_missing();

    // Leaving.
    void restore_code();
    void on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) override;
    void on_thread_gone(const ThreadGone& gone) override;

    Target& target_;
    ModuleMap& modules_;
    EventSink& sink_;
    EngineObserver& observer_;
    BreakpointTable breakpoints_;
    AllocatorSearch& search_;
    AllocationCalls calls_;
    TrapSignal trap_signal_;
    absl::flat_hash_map<Tid, Rehit> rehits_;
    bool announced_ = false;
    bool armed_ = false;
    bool may_be_referenced_ = false; ///< see Detacher
    bool target_gone_ = false;
    std::optional<int> end_status_; ///< of the process
    std::size_t entry_points_ = 0;
    std::size_t mapping_entry_points_ = 0; ///< of these
};

} // namespace memleax
