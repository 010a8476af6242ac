// SPDX-License-Identifier: GPL-3.0-or-later
/// A frame as the fast walk keeps it: sp and fp, moved outwards by Rules.
#pragma once

#include <cstdint>

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/unwind/rule.hpp"
#include "stack_window.hpp"
#include "step.hpp"

namespace memleax {

class FastFrame {
  public:
    FastFrame(const arch::Registers& regs, StackWindow& stack) : stack_(stack) { *this = regs; }
    FastFrame& operator=(const arch::Registers& regs) {
        set(arch::sp(regs).value(), arch::dwarf_register(regs, arch::kDwarfFramePointer));
        link_ = arch::dwarf_register(regs, arch::kDwarfReturnAddress);
        return *this;
    }
    [[nodiscard]] std::uint64_t sp() const { return sp_; }
    [[nodiscard]] std::uint64_t fp() const { return fp_; }
    void set_sp(std::uint64_t sp) { sp_ = sp; }
    void set_link(std::uint64_t link) { link_ = link; }
    void set(std::uint64_t sp, std::uint64_t fp) {
        sp_ = sp;
        fp_ = fp;
    }

    /// To the caller, by the equations in rule.hpp.
    Step regular(FrameAddress frame, const Rule& rule) {
        const bool in_register = rule.ra_place == Rule::RaPlace::in_register;
        if (in_register && frame.is_return_address()) {
            return Step::stop(StackEnd::bad_rule); // it has called, and so lost it
        }
        std::uint64_t cfa =
            (rule.cfa_base == Rule::CfaBase::sp ? sp_ : fp_) + word(rule.cfa_offset);
        if (rule.cfa_base == Rule::CfaBase::at_fp) {
            const auto saved = stack_.stack_word(RemoteAddr(cfa));
            if (!saved) {
                return Step::stop(StackEnd::bad_memory);
            }
            cfa = *saved;
        }
        // A function that keeps its return address in the register may have nothing on the stack.
        // One that has a frame pointer may have gone over to another stack (__morestack of split
        // stacks), of which the pieces lie in any order.
        const bool outwards = cfa > sp_ || (cfa == sp_ && in_register);
        if (!outwards && (rule.cfa_base == Rule::CfaBase::sp ||
                          !stack_.is_other_stack(RemoteAddr(cfa), RemoteAddr(sp_)))) {
            return Step::stop(StackEnd::not_increasing);
        }
        const auto ra = in_register ? std::optional(link_)
                                    : stack_.stack_word(RemoteAddr(cfa + word(rule.ra_offset)));
        if (!ra) {
            return Step::stop(StackEnd::bad_memory);
        }
        if (rule.fp_place != Rule::FpPlace::unchanged) {
            const std::uint64_t base = rule.fp_place == Rule::FpPlace::at_cfa ? cfa : fp_;
            const auto saved = stack_.stack_word(RemoteAddr(base + word(rule.fp_offset)));
            if (!saved) {
                return Step::stop(StackEnd::bad_memory);
            }
            fp_ = *saved;
        }
        sp_ = cfa;
        return Step::to(Step::Kind::called, *ra);
    }
    Step slow(FrameAddress /*frame*/) { return {Step::Kind::needs_rows, {}, 0}; }

  private:
    static constexpr std::uint64_t word(std::int32_t offset) {
        return static_cast<std::uint64_t>(std::int64_t{offset});
    }
    StackWindow& stack_;
    std::uint64_t sp_ = 0;
    std::uint64_t fp_ = 0;
    std::uint64_t link_ = 0; ///< of the frame that has them all: the innermost, an interrupted one
};

} // namespace memleax
