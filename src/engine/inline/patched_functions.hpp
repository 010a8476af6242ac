// SPDX-License-Identifier: GPL-3.0-or-later
/// The functions that begin with a jump to the agent, or are to as soon as no thread stands where
/// it comes. Until all see what is written to their code (SeenByAll), they are watched by their
/// breakpoints.
#pragma once

#include <optional>
#include <vector>

#include "agent_memory.hpp"
#include "entry_proof.hpp"
#include "memleax/allocators/allocator_search.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/target/breakpoint.hpp"
#include "seen_by_all.hpp"

namespace memleax {

class PatchedFunctions {
  public:
    struct Function {
        Breakpoint* entry; ///< null: it is not one of these
        Breakpoint* trap;  ///< where a call that the agent does not accept stops
        CodeAddr thunk;
        bool frees = false;
        bool has_jump = false;
        bool is_prepared = false; ///< for its jump: BreakpointTable::prepare_jumps()
        bool answers = false;     ///< a gate that may: see set_answer()
    };

    /// All must outlive this.
    PatchedFunctions(Target& target, BreakpointTable& breakpoints, AgentMemory& memory,
                     Unwinder& unwinder)
        : breakpoints_(breakpoints), memory_(memory), unwinder_(unwinder), proof_(target, unwinder),
          barrier_(target) {}

    /// Are its calls such that the agent can tell of them?
    [[nodiscard]] static bool can_be(const AllocatorEntry& entry);
    /// To be asked before a breakpoint is put at one of them: may it become a jump? The agent's
    /// memory is mapped when there is the first use for it.
    bool may_have_jump(const AllocatorEntry& function, Tid worker, bool checks);
    /// Each from this number on that can be gets its jump, now or later.
    void add(const CallFollower& follower, int first, Tid worker);
    /// The function of this breakpoint gets a jump later, when the others have theirs: to code that
    /// lets it do its work unless it is called for SIGTRAP (arch::gate_code). The breakpoint where
    /// it stops then; null if the function cannot begin with a jump, or nothing here does.
    Result<Breakpoint*> add_gate(Breakpoint* entry, bool of_c_library, Tid worker);
    /// From now on gates of the C library's answer who only asks, as long as `handler` is in force
    /// (arch::gate_code); nothing: none does.
    void set_answer(std::optional<std::uint64_t> handler);

    /// The function whose trap this breakpoint is, once it has its jump; else null.
    [[nodiscard]] const Function* of_trap(const Breakpoint& breakpoint) const;
    /// Looks where the threads are; when each has been seen elsewhere, the jumps are put, in the
    /// course of some more calls of this.
    void look();
    /// At a stopped thread. Puts none: it may be at one of the breakpoints.
    void look_at(Tid tid);
    /// Nothing here has a jump, nor will have one: that was tried in vain, which the user was told.
    [[nodiscard]] bool gave_up() const { return gave_up_; }
    void on_thread_gone(Tid tid) {
        proof_.on_thread_gone(tid);
        barrier_.on_thread_gone(tid);
    }

    /// The jumps go, for good: in the course of some calls of look() ...
    void begin_withdrawal();
    [[nodiscard]] bool is_withdrawn() const { return is_leaving_ && step_ == Step::none; }
    /// ... or at once.
    void withdraw_jumps();
    /// The code in this range is gone.
    void forget(AddrRange range);
    /// The address space is gone.
    void reset();

  private:
    /// What the barrier that is under way is for.
    enum class Step {
        none,
        breakpoints, ///< are seen by all, before anything is written behind them
        behind,      ///< is what goes with a jump
        back,        ///< again are breakpoints in place of jumps
        original     ///< again is what is behind them
    };

    Result<void> patch(const AllocatorEntry& function, int number, Breakpoint* entry, Tid worker);
    Result<Breakpoint*> insert_trap(const AgentMemory::Thunk& thunk, CodeAddr function, Tid worker);
    [[nodiscard]] std::vector<Function*> all();
    void begin_proof(const std::vector<AddrRange>& behind_entries);
    bool take_waiting_gates();
    void tell_answer(const Function& gate);
    void begin_barrier(Step step);
    void advance();
    Result<void> prepare_jumps();
    Result<void> complete_jumps();
    void give_up(const Error& error);

    BreakpointTable& breakpoints_;
    AgentMemory& memory_;
    Unwinder& unwinder_;
    EntryProof proof_;
    std::vector<Function> functions_;     ///< by the follower's number
    std::vector<Function> gates_;         ///< that have their jump, or are about to get it
    std::vector<Function> waiting_gates_; ///< until the functions have theirs
    std::optional<std::uint64_t> answer_; ///< see set_answer()
    bool waits_for_proof_ = false;
    SeenByAll barrier_;
    Step step_ = Step::none;
    bool any_new_ = false; ///< functions since the last barrier began
    bool is_leaving_ = false;
    bool gave_up_ = false; ///< there can be no agent here
};

} // namespace memleax
