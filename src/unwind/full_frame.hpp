// SPDX-License-Identifier: GPL-3.0-or-later
/// A frame with all its registers, moved outwards by whole rows of call frame information.
#pragma once

#include <cstdint>

#include "arch.hpp"
#include "expression.hpp"
#include "memleax/base/types.hpp"
#include "rule_source.hpp"
#include "stack_window.hpp"
#include "step.hpp"

namespace memleax {

class FullFrame {
  public:
    FullFrame(const arch::Registers& regs, StackWindow& stack, RuleSource& source)
        : registers_(regs), stack_(stack), source_(source) {}
    FullFrame& operator=(const arch::Registers& regs) {
        registers_ = RegisterFile(regs);
        return *this;
    }
    [[nodiscard]] std::uint64_t sp() const {
        return registers_.get(arch::kDwarfStackPointer).value_or(0);
    }
    [[nodiscard]] std::uint64_t fp() const {
        return registers_.get(arch::kDwarfFramePointer).value_or(0);
    }
    void set_sp(std::uint64_t sp) { registers_.set(arch::kDwarfStackPointer, sp); }
    /// What frame pointers tell; the other registers may have been changed by this frame.
    void set(std::uint64_t sp, std::uint64_t fp) {
        registers_ = RegisterFile();
        registers_.set(arch::kDwarfStackPointer, sp);
        registers_.set(arch::kDwarfFramePointer, fp);
    }

    /// To the caller, by the frame's row, or by the rule if there is no row.
    Step regular(FrameAddress frame, const Rule& rule);
    /// To the caller, by the frame's row.
    Step slow(FrameAddress frame);

  private:
    [[nodiscard]] std::uint64_t link() const {
        return registers_.get(arch::kDwarfReturnAddress).value_or(0);
    }
    Step apply(const CfiRow& row, FrameAddress frame);
    std::optional<std::uint64_t> cfa_of(const CfiRow& row);
    /// False if the rule cannot be followed; `reason` says why.
    bool restore(unsigned number, const RegisterRule& rule, std::uint64_t cfa, RegisterFile* caller,
                 StackEnd* reason);

    RegisterFile registers_;
    StackWindow& stack_;
    RuleSource& source_;
};

} // namespace memleax
