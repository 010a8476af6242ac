// SPDX-License-Identifier: GPL-3.0-or-later
/// What every engine does at the stops of a process's life: births and ends of threads, signals,
/// forks, exec, modules that come and go; the begin and the end of the watching.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "earlier_calls.hpp"
#include "engine.hpp"
#include "leave/detacher.hpp"
#include "leave/forked_copy.hpp"
#include "leave/held_hits.hpp"
#include "look_pause.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/trap_signal.hpp"
#include "process_environment.hpp"

namespace memleax {

class LifeCycle final : public Watch, StopHandler, EngineHost, DetachObserver {
  public:
    LifeCycle(Target& target, ModuleMap& modules, AccountAccess account, WatchObserver& observer,
              AllocatorSearch& search, const FollowOptions& options, EngineChoice engine,
              UnwinderChoice unwinder);
    ~LifeCycle() override; // NOLINT(bugprone-exception-escape): see there
    LifeCycle(const LifeCycle&) = delete;
    LifeCycle& operator=(const LifeCycle&) = delete;

    [[nodiscard]] const char* engine_name() const override { return engine_->name(); }
    Result<void> arm() override;
    void on_silence() override;
    std::int64_t on_tick() override;
    [[nodiscard]] bool needs_ticks() const override {
        return target_.signals().any_held() || earlier_.any() || held_hits_.is_on();
    }
    [[nodiscard]] std::vector<AddrRange> own_memory() override;
    [[nodiscard]] Unwinder& unwinder() override { return engine_->unwinder(); }
    void compare(const std::shared_ptr<StackComparison>& comparison) override {
        engine_->compare(comparison);
    }
    void begin_to_leave(bool alone) override;
    [[nodiscard]] bool is_ready_to_leave() const override;
    void leave() override;

  private:
    void on_stop(const StopEvent& event) override;
    bool move_hit_to_slot(Tid tid) override { return engine_->move_hit_to_slot(tid); }
    [[nodiscard]] bool takes_long(Tid tid) const override { return engine_->takes_long(tid); }
    // Each leaves the thread running, or where it belongs.
    void on_stop(const TrapStop& stop);
    void on_stop(const SignalStop& stop);
    void on_stop(const GroupStop& stop);
    void tell_if_stopped();
    void on_stop(const QuietStop& stop);
    void on_stop(const ChildStop& stop);
    void on_stop(const BirthStop& stop);
    void on_stop(const ExecStop& stop);
    void on_stop(const ThreadGone& stop);
    void on_childs_exec(Tid child);
    void on_own_exec(Tid tid);
    void clean_children_of_former_program();
    void deliver(Tid tid, int signal);

    void on_module_event(Tid tid) override;
    void on_engine_changed() override { observer_.on_engine_changed(); }
    void on_unattended_hit() override;
    void look_for_unattended_hit();
    void on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) override;
    void on_thread_gone(const ThreadGone& gone) override;
    void forget_thread(Tid tid);
    /// The end of the first thread is told last, but not at all if it had ended before we came; and
    /// a child that shares the memory, or a copy that is not clean yet, may outlive it.
    void note_if_all_gone();
    void on_all_gone();

    Result<Tid> borrow_first();
    /// The first time; unless the process executes another program before all is done.
    Result<void> watch_first(const WatchedPlaces& places, bool* executes);
    Result<void> watch_places(const WatchedPlaces& places, Tid worker);
    Result<void> refresh_modules(Tid worker);
    void announce_if_ready();
    void begin_to_see_calls();
    [[nodiscard]] const Breakpoint* find_hit(Tid tid);
    [[nodiscard]] bool hits_more_than_a_probe(Tid tid);
    [[nodiscard]] bool hits_an_entry(Tid tid);
    void release_held();
    /// Of calls that were under way before.
    void tell_if_all_are_seen();
    void tell_mapped_before();
    /// Of the user's functions.
    void warn_of_missing();
    void warn_of_missing_probes();
    [[nodiscard]] bool watches_any_probe() const;

    Target& target_;
    ModuleMap& modules_;
    AccountAccess account_;
    WatchObserver& observer_;
    AllocatorSearch& search_;
    BreakpointTable breakpoints_;
    TrapSignal trap_signal_;
    ProcessEnvironment environment_;
    CallFollower follower_;
    std::unique_ptr<Engine> engine_;
    EarlierCalls earlier_;
    HeldHits held_hits_;
    OwnPages own_pages_; ///< of the present program
    bool announced_ = false;
    bool armed_ = false;
    bool stopped_ = false;           ///< by job control, as the observer has been told
    bool may_be_referenced_ = false; ///< see Detacher
    bool target_gone_ = false;
    LookPause look_pause_;          ///< for an unattended hit
    bool told_of_untraced_ = false; ///< and its like may come at any time
    std::optional<int> end_status_; ///< of the process
};

} // namespace memleax
