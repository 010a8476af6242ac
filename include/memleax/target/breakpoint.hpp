// SPDX-License-Identifier: GPL-3.0-or-later
/// Breakpoints that stay in place: the displaced instruction runs out of line, in a slot.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/code_patch.hpp"
#include "memleax/target/own_code.hpp"
#include "memleax/target/raised_counters.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_handler.hpp"

namespace memleax {

/// Executable pages in the target for displaced instructions, mapped by remote system calls near
/// the code that they serve. Read and execute only (written through /proc/PID/mem). Forked
/// children have them, too: one that nobody gets to may run into a breakpoint of its copy.
class SlotArena {
  public:
    SlotArena(Target& target, TrapHandler& handler) : target_(target), handler_(handler) {}

    /// A slot of arch::kSlotBytes within reach of `near`. Maps a new region by the stopped thread
    /// `worker` if need be; after a failure that is not tried again near there for a while.
    Result<CodeAddr> allocate(CodeAddr near, Tid worker);
    void release(CodeAddr slot);
    /// The slot that this address inside a region belongs to.
    [[nodiscard]] CodeAddr slot_of(CodeAddr pc) const;

    /// Takes over what a RecoveryRecord tells of.
    void adopt();
    [[nodiscard]] std::vector<AddrRange> ranges() const;
    [[nodiscard]] bool contains(CodeAddr pc) const;

    /// Unmaps everything by the stopped thread `worker`. No thread's pc may be inside.
    Result<void> unmap(Tid worker);
    /// The address space is gone (exec, exit).
    void forget() {
        regions_.clear();
        failures_.clear();
    }

  private:
    struct Failure {
        CodeAddr near;
        int errnum = 0;
        MonotonicNs until; ///< before which it would most probably fail again
    };
    struct Region {
        AddrRange range;
        std::vector<CodeAddr> free;
    };
    Result<Region*> map_region(CodeAddr near, Tid worker);
    Result<Region*> map_region_unless_it_failed(CodeAddr near, Tid worker);

    Target& target_;
    TrapHandler& handler_;
    std::vector<Region> regions_;
    std::vector<Failure> failures_;
};

/// One patched instruction.
struct Breakpoint {
    [[nodiscard]] CodeAddr address() const { return patch.address; }
    /// Where a thread that hits it is, in the target's own code.
    [[nodiscard]] CodeAddr place() const { return stands_for.value_or(address()); }
    /// With stands_for: a jump to that place, by which a hit goes there. In its slot our handler
    /// knows it for one, should we die before the thread has gone on; at the place itself it would
    /// not.
    [[nodiscard]] CodeAddr retry() const { return *slot + kRetryAt; }

    /// Is a thread with these registers, at the function's entry, about to set SIGTRAP's action?
    [[nodiscard]] bool sets_trap_action(const arch::Registers& regs) const;

    /// In the slot, behind the displaced no-op.
    static constexpr std::int64_t kRetryAt = arch::kSlotBytes / 2;

    CodePatch patch;
    /// Absent where the instruction cannot be moved: then it is stepped in place, with all other
    /// threads stopped.
    std::optional<CodeAddr> slot;
    arch::DisplacedInstruction displaced;
    std::uint8_t original_length = 0;
    /// False once its original bytes are back: a thread may have executed it just before.
    bool inserted = false;
    /// What a hit means; for the engine. An address may be several things at once.
    std::optional<std::uint32_t> record; ///< its index in the RecoveryRecord
    int entry = -1;                      ///< index of the allocator entry point, or -1
    /// Set if its slot has all the instructions under a jump.
    bool takes_jump = false;
    std::array<std::uint8_t, arch::kMaxEntryBytes> code{}; ///< what is there, with takes_jump
    /// The jump that it is, or has been: a forked child may have it still. Recognises the
    /// breakpoint as well.
    CodePatch jump;
    /// In code of ours, by which threads go on at this place in the target's.
    std::optional<CodeAddr> stands_for;
    int probe = -1; ///< index of the probes at this place, or -1
    bool is_return = false;
    bool is_module_event = false;
    bool is_signal_action = false; ///< sigaction(3)'s entry, ...
    bool of_c_library = false;     ///< ... of the C library itself
};

/// All breakpoints of one address space, and their slots. Must be destroyed, or forgotten, before
/// the Target.
class BreakpointTable final : public OwnCode {
  public:
    explicit BreakpointTable(Target& target)
        : target_(target), handler_(target), slots_(target, handler_), counters_(target) {}
    BreakpointTable(const BreakpointTable&) = delete;
    BreakpointTable& operator=(const BreakpointTable&) = delete;

    /// Takes over what the target's RecoveryRecord tells of, after the death of who wrote it.
    void adopt();

    /// Patches the instruction at `address`, if that is not done yet. Other threads may run.
    /// `worker` is a stopped thread, for mapping slots. The pointer stays good until forget().
    Result<Breakpoint*> insert(CodeAddr address, Tid worker) { return insert(address, 0, worker); }
    /// The same at the entry of a function of so many bytes; with takes_jump, if the function can
    /// begin with a jump.
    Result<Breakpoint*> insert_at_entry(CodeAddr address, std::uint64_t function_bytes, Tid worker);
    struct Jump {
        Breakpoint* from;
        CodeAddr to;
    };
    /// A breakpoint in code of ours: see Breakpoint::stands_for. The guardian knows it as well.
    Result<void> set_stands_for(Breakpoint& breakpoint, CodeAddr place);
    /// Such breakpoints become jumps, in these two steps: see write_behind_breakpoints(), of which
    /// this has the conditions. An error if there would be two at one place, of which the guardian
    /// would know only one. If a step fails, withdraw_jumps().
    Result<void> prepare_jumps(std::span<const Jump> jumps);
    Result<void> complete_jumps(std::span<Breakpoint* const> jumps);
    /// Prepared and complete ones become breakpoints again, in two steps, and then are known as
    /// such: see put_breakpoints_on_jumps().
    void begin_withdrawal();
    void restore_behind_withdrawn();
    void end_withdrawal();
    /// All of it, without a pause.
    void withdraw_jumps();
    /// From now on our handler lets a thread wait there that gets to its slot without a tracer
    /// (arch::kSlotHolds).
    Result<void> hold_unwatched(const Breakpoint& breakpoint);
    [[nodiscard]] Breakpoint* find(CodeAddr address);
    /// The one that a thread with these registers has hit, if its TrapStop is about one: it stands
    /// behind it, or has been moved to its slot already.
    [[nodiscard]] Breakpoint* find_hit(const arch::Registers& regs);
    /// In no order.
    [[nodiscard]] std::vector<Breakpoint*> all();

    /// A thread has hit `breakpoint`: its pc goes where the instruction is executed out of line. To
    /// be done at once: from then on it could go on without us. One that must not, as it
    /// sets_trap_action(), gets back to the breakpoint instead, at which our handler holds it
    /// should we die; then move_on_to_slot().
    void move_to_slot(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    /// When that has been seen to: the pc goes into the slot, with these registers.
    void move_on_to_slot(Tid tid, arch::Registers regs, const Breakpoint& breakpoint);
    /// Lets it go on from there; breakpoints of other threads stay in place. Leaves the thread
    /// running.
    void continue_from(Tid tid, arch::Registers* regs, Breakpoint& breakpoint);

    /// Puts the original bytes back at one place. Expects that our breakpoint is still there, and
    /// leaves alone what somebody else has written meanwhile (then false).
    bool restore(Breakpoint& breakpoint);
    /// After restore() of one that stays of use.
    Result<void> put_back(Breakpoint& breakpoint);
    /// restore() of all.
    void restore_all();
    /// Puts the original bytes into another process's copy of the memory, a forked child's.
    /// `own_pages_go`: those in our own code go with its pages (a forked child's), at no cost.
    Result<void> restore_in_copy(RemoteMemory& memory, bool own_pages_go) const;
    /// Drops the breakpoints in a range that is not mapped any more.
    void forget(AddrRange range);
    /// Drops all without touching the target: its address space is gone.
    void forget_all();

    /// Raises the semaphore of a probe at a breakpoint, for as long as that may be in.
    Result<void> raise_counter(RemoteAddr address) { return counters_.raise(address); }
    /// Is one of them, which is to become a jump or can, in force for the code at this address?
    [[nodiscard]] bool is_under_jump(CodeAddr address) const;
    /// Is there one of a probe in this range?
    [[nodiscard]] bool any_probe_in(AddrRange range) const;

    TrapHandler& handler() { return handler_; }
    /// What a target has of ours by this table: slots, and the handler, which goes last.
    [[nodiscard]] OwnCodes& own_codes() { return own_codes_; }

    // OwnCode: the slots.
    [[nodiscard]] std::vector<AddrRange> ranges() const override { return slots_.ranges(); }
    [[nodiscard]] bool contains(CodeAddr pc) const override { return slots_.contains(pc); }
    [[nodiscard]] bool move_out(arch::Registers* regs) const override;
    Result<void> unmap(Tid worker) override { return slots_.unmap(worker); }

  private:
    /// `function_bytes` 0: one instruction, wherever it is.
    Result<Breakpoint*> insert(CodeAddr address, std::uint64_t function_bytes, Tid worker);
    Result<void> fill_slot(Breakpoint& breakpoint, std::span<const std::uint8_t> code, Tid worker);
    void release_slot(const Breakpoint& breakpoint);
    [[nodiscard]] std::vector<CodePatch> jumps() const;
    [[nodiscard]] Result<arch::DisplacedInstruction>
    displace(const Breakpoint& breakpoint, std::span<const std::uint8_t> code, CodeAddr slot) const;
    void step_over(Tid tid, arch::Registers* regs, Breakpoint& breakpoint);

    Target& target_;
    TrapHandler handler_;
    SlotArena slots_;
    RaisedCounters counters_;
    absl::flat_hash_map<CodeAddr, std::unique_ptr<Breakpoint>> table_;
    absl::flat_hash_map<CodeAddr, Breakpoint*> by_slot_;
    OwnCodes own_codes_{{this, &handler_}};
};

} // namespace memleax
