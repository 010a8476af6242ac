// SPDX-License-Identifier: GPL-3.0-or-later
/// The engine that works by breakpoints: an int3 (BRK on arm64) at every allocator entry point and
/// at every return address from one.
#pragma once

#include "call_reporter.hpp"
#include "engine.hpp"
#include "probe_watch.hpp"
#include "told_calls.hpp"

namespace memleax {

/// A breakpoint is lifted only when the target is left.
class Int3Engine : public Engine {
  public:
    Int3Engine(const EngineContext& context, EngineHost& host);

    [[nodiscard]] const char* name() const override { return "int3"; }
    Result<void> watch(const WatchedPlaces& places, Tid worker) override;
    void forget(AddrRange range) override {
        breakpoints_.forget(range);
        probes_.forget(range);
    }
    void modules_changed() override { reporter_.modules_changed(); }
    void reset() override;
    void set_signature_mask(std::uint64_t mask) override { reporter_.set_signature_mask(mask); }
    void compare(const std::shared_ptr<StackComparison>& comparison) override {
        reporter_.recorder().compare(comparison);
    }
    bool on_trap(Tid tid) override;
    bool move_hit_to_slot(Tid tid) override;
    [[nodiscard]] bool leave_own_code(Tid tid) override;
    [[nodiscard]] Unwinder& unwinder() override { return reporter_.unwinder(); }
    void on_thread_gone(Tid tid) override { told_calls_.forget(tid); }
    [[nodiscard]] bool watches_probe(const std::string& request) const override {
        return probes_.watches(request);
    }
    [[nodiscard]] bool has_refused_probe(const std::string& request) const override {
        return probes_.has_refused(request);
    }
    void restore_code() override;
    void on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) override;

  protected:
    /// The call that was hit has been told, and its thread is about to go on.
    virtual void before_going_on(Tid /*tid*/) {}
    /// Watches one function, which is numbered so.
    virtual Result<Breakpoint*> insert(const AllocatorEntry& function, Tid worker);
    virtual Result<Breakpoint*> insert(const SignalActionEntry& action, Tid worker);
    /// Its hits are those of sigaction(3).
    Result<void> set_signal_action(Breakpoint& breakpoint, bool of_c_library);

    /// Our breakpoint that this stop is about, with the thread's registers; null if the SIGTRAP is
    /// the target's own.
    Breakpoint* our_breakpoint(Tid tid, arch::Registers* regs);
    /// Reports the call that the hit is, unless it is a repeated one.
    void on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    /// Lifts a breakpoint that is of no use. A thread that was to hit it again passes by, so that
    /// its next hit there, when it has been put back, is a new one.
    void lift(Breakpoint& breakpoint);
    /// A hit that Breakpoint::sets_trap_action(), with these registers. False: the thread is not to
    /// go on now.
    bool set_trap_action(Tid tid, arch::Registers* regs, const Breakpoint& breakpoint);

    EngineHost& host_;
    Target& target_;
    BreakpointTable& breakpoints_;
    TrapSignal& trap_signal_;
    CallFollower& follower_;
    CallReporter reporter_;
    ProbeWatch probes_;
    ToldCalls told_calls_;
};

} // namespace memleax
