// SPDX-License-Identifier: GPL-3.0-or-later
/// The engine that works without stops, where it can: a watched function begins with a jump to code
/// of ours in the target, the agent (agent/agent.hpp), which records a call whose stack is known,
/// and lets everything else run into a breakpoint. It is a cache in front of the int3 engine, which
/// this one is besides: what the tracer finds out at a stop, the agent knows from then on.
#pragma once

#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "agent_memory.hpp"
#include "agent_threads.hpp"
#include "call_tree.hpp"
#include "int3/int3_engine.hpp"
#include "memleax/events/seen_calls.hpp"
#include "patched_functions.hpp"
#include "thread_pointers.hpp"
#include "thread_stacks.hpp"

namespace memleax {

class InlineEngine final : public Int3Engine {
  public:
    InlineEngine(const EngineContext& context, EngineHost& host);
    ~InlineEngine() override;
    InlineEngine(const InlineEngine&) = delete;
    InlineEngine& operator=(const InlineEngine&) = delete;

    [[nodiscard]] const char* name() const override {
        return patched_.gave_up() ? Int3Engine::name() : "inline";
    }
    Result<void> watch(const WatchedPlaces& places, Tid worker) override;
    void forget(AddrRange range) override;
    void modules_changed() override;
    void compare(const std::shared_ptr<StackComparison>& comparison) override;
    void reset() override;
    bool on_trap(Tid tid) override;
    [[nodiscard]] bool takes_long(Tid tid) const override;
    [[nodiscard]] bool leave_own_code(Tid tid) override;
    [[nodiscard]] bool takes_fault(Tid tid) override;
    void on_thread_gone(Tid tid) override;
    void on_unattended_hit() override;
    void on_quiet_stop(Tid tid) override;
    std::int64_t on_tick() override;
    void begin_to_leave() override;
    [[nodiscard]] bool is_ready_to_leave() const override { return patched_.is_withdrawn(); }
    void restore_code() override;
    void on_late_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint) override;
    void on_left() override;

  private:
    /// What is kept of a thread that traps.
    struct Trapping {
        /// It was let make its call anew, from there, after so many calls that needed no trap.
        bool is_retried = false;
        RemoteAddr sp;
        std::uint64_t calls = 0;
        bool trap = false; ///< as the agent has it
        /// It has just been told of a free that the agent does not know: what that calls may be a
        /// part of it.
        bool in_told_free = false;
        bool has_forced_stack = false;
    };
    enum class Way {
        again, ///< the agent can do it now
        past,  ///< nobody is to know of this call
        stop   ///< as the int3 engine does it
    };

    struct Decision {
        Way way;
        StopReason reason;
    };

    Result<Breakpoint*> insert(const AllocatorEntry& function, Tid worker) override;
    Result<Breakpoint*> insert(const SignalActionEntry& action, Tid worker) override;
    void add_gate(const SignalActionEntry& action, Tid worker);
    void tell_answer();
    void tell_if_gave_up();
    void before_going_on(Tid tid) override;
    Decision decide(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                    const PatchedFunctions::Function& function);
    std::optional<std::uint32_t> find_thread(Tid tid, const arch::Registers& regs,
                                             StopReason* reason);
    bool tell_stack(Tid tid, std::uint32_t index, const arch::Registers& regs,
                    const Breakpoint& breakpoint, StopReason* reason);
    void forget_live(const Breakpoint& breakpoint, const arch::Registers& regs);
    void count(StopReason reason) { ++stops_.at(static_cast<std::size_t>(reason)); }
    void tell_own_mappings();
    void look_at_worker(Tid worker);
    void look_at_pointer(Tid tid, std::uint64_t pointer);
    void tell_pointer_place();
    /// What a call is made by that the agent does not accept.
    enum class Within {
        nothing,
        call,   ///< one that the agent is inside of
        handler ///< a signal's, that has interrupted such a one
    };
    [[nodiscard]] Within look_within(Tid tid, const arch::Registers& regs);
    /// Of a call within another that the agent is inside of, or so it seems.
    std::optional<Decision> decide_within(Tid tid, std::uint32_t index, const arch::Registers& regs,
                                          const Breakpoint& breakpoint);
    void go_on_at(Tid tid, arch::Registers* regs, CodeAddr place);
    void withdraw_forced_stack(Tid tid);
    [[nodiscard]] bool frees_blocks(int number) const;
    void lift_if_useless(CodeAddr address);
    void set_trap(Tid tid, bool trap);
    /// Are there calls, told already, that are still to be made, further out on the stack? The
    /// thread stands before an allocator's function.
    [[nodiscard]] bool has_calls_to_come(Tid tid, const arch::Registers& regs);
    /// Reads what has been recorded, and tells it. What is read is told before anything else is.
    void drain();
    void tell_calls();
    void collect();
    void tell();

    AccountAccess account_;
    AgentMemory memory_;
    AgentThreads threads_;
    CallTree tree_;
    ThreadStacks stacks_;
    ThreadPointers pointers_{arch::agent_may_ask_cpu()};
    arch::ThreadPointerFrom told_pointer_from_{}; ///< as the agent has it
    PatchedFunctions patched_;
    absl::flat_hash_map<Tid, Trapping> trapping_;
    std::vector<Rule> rules_;
    bool is_untold_ = false; ///< what was fetched last
    bool may_pass_ = true;   ///< calls, unseen, after an unattended hit
    bool left_ = false;
    bool told_that_gave_up_ = false;
    StopCounts stops_{};                ///< of calls
    std::size_t reported_mappings_ = 0; ///< of ours
    std::uint64_t made_anew_ = 0;       ///< after they had stopped
};

} // namespace memleax
