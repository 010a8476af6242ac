// SPDX-License-Identifier: GPL-3.0-or-later
/// Which walk of a stack goes into the account.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "memleax/calls/call_follower.hpp"
#include "memleax/engine/stack_comparison.hpp"
#include "memleax/unwind/libunwind_walker.hpp"
#include "memleax/unwind/unwinder_choice.hpp"

namespace memleax {

/// What a call is, and where it returns to, is always told by our own walk: a breakpoint at a wrong
/// return address would end the target.
class StackRecorder {
  public:
    /// All references must outlive it.
    StackRecorder(const ModuleMap& modules, MemoryReader& memory, CallFollower& follower,
                  UnwinderChoice choice)
        : modules_(modules), memory_(memory), follower_(follower), choice_(choice) {}

    /// Where the thread stands.
    enum class At { entry, any_instruction };
    /// What is to be recorded of a stack that our own unwinder has walked from these registers:
    /// good until the next call of this, and no longer than `walked`.
    const UnwoundStack& to_record(Tid tid, const arch::Registers& regs, At at,
                                  const UnwoundStack& walked);
    /// See Watch::compare().
    void compare(const std::shared_ptr<StackComparison>& comparison) { comparison_ = comparison; }
    void set_signature_mask(std::uint64_t mask);
    void modules_changed();

  private:
    /// Made when somebody needs it.
    LibunwindWalker& libunwind();

    const ModuleMap& modules_;
    MemoryReader& memory_;
    CallFollower& follower_;
    UnwinderChoice choice_;
    std::uint64_t signature_mask_ = 0;
    std::optional<LibunwindWalker> libunwind_;
    UnwoundStack stack_; ///< libunwind's, reused
    std::weak_ptr<StackComparison> comparison_;
};

} // namespace memleax
