// SPDX-License-Identifier: GPL-3.0-or-later
/// The code of our SIGTRAP handler in the target: should we die, a thread that runs into a
/// breakpoint of ours goes on in its slot.
#pragma once

#include <cstddef>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/own_code.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

class Target;

/// The page that it lies in. Mapped before the first slot, and unmapped after the last.
class TrapHandler final : public OwnCode {
  public:
    explicit TrapHandler(Target& target) : target_(target) {}

    /// By the stopped thread `worker`. From then on remote system calls are made from that page.
    Result<void> map(Tid worker);
    /// Takes over what a RecoveryRecord tells of.
    void adopt();
    /// Slots that the handler is to find.
    Result<void> add_region(AddrRange region);
    /// From the next chain_to() on it finds none.
    void forget_regions() { region_count_ = 0; }
    /// What is not ours goes to this action of the target's.
    Result<void> chain_to(const RecoveryRecord::SignalAction& action);
    /// The action that makes ours SIGTRAP's handler, with those flags of `before` that the target's
    /// own handler, if there is one, counts on.
    [[nodiscard]] RecoveryRecord::SignalAction
    action(const RecoveryRecord::SignalAction& before) const;

    [[nodiscard]] bool mapped() const { return !page_.empty(); }
    /// May the target have kept the action(), to put it back some day? Then the page must stay.
    [[nodiscard]] bool may_be_saved() const;

    /// Has a hit had no tracer, though we live: one of somebody that we do not trace
    /// (Target::seize_untraced)? Until it is forgotten, the agent lets calls pass.
    [[nodiscard]] bool had_unattended_hit() const;
    void forget_unattended_hit();

    // OwnCode.
    [[nodiscard]] std::vector<AddrRange> ranges() const override {
        return mapped() ? std::vector{page_} : std::vector<AddrRange>();
    }
    [[nodiscard]] bool contains(CodeAddr pc) const override { return page_.contains(pc); }
    /// It is short, and has registers of the interrupted code that only it can put back.
    [[nodiscard]] bool move_out(arch::Registers* /*regs*/) const override { return false; }
    /// The page stays, with a warning, if the action may_be_saved().
    Result<void> unmap(Tid worker) override;

    /// The address space is gone.
    void forget();
    /// Has the target a page with such a handler that is not this one's: of a memleax that was
    /// killed, and its guardian with it?
    [[nodiscard]] bool is_left_by_another() const;

  private:
    [[nodiscard]] RemoteAddr data() const;
    [[nodiscard]] RemoteAddr unattended() const;

    Target& target_;
    AddrRange page_;
    std::uint64_t region_count_ = 0;
};

} // namespace memleax
