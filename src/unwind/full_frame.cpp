// SPDX-License-Identifier: GPL-3.0-or-later
#include "full_frame.hpp"

#include <algorithm>

#include <dwarf.h>

#include "fast_frame.hpp"

namespace memleax {

namespace {

/// Is this a frame of which we do not know how long its vectors are?
bool depends_on_vector_length(const CfiRow& row) {
    return std::any_of(row.cfa_expression.begin(), row.cfa_expression.end(), [](const DwarfOp& op) {
        return op.opcode == DW_OP_bregx && op.operand1 == arch::kDwarfVectorLength;
    });
}

} // namespace

Step FullFrame::regular(FrameAddress frame, const Rule& rule) {
    if (const CfiRow* row = source_.row(frame)) {
        return apply(*row, frame);
    }
    // Code without tables, at an instruction that tells where the caller is, where nothing but sp
    // has changed: it is before the prologue's first store or after the epilogue's last load. Or
    // our own code, which has a frame pointer.
    arch::Registers none{};
    FastFrame fast(none, stack_);
    fast.set(sp(), fp());
    fast.set_link(link());
    const Step step = fast.regular(frame, rule);
    registers_.set(arch::kDwarfStackPointer, fast.sp());
    if (rule.fp_place != Rule::FpPlace::unchanged) {
        registers_.set(arch::kDwarfFramePointer, fast.fp());
    }
    registers_.set(arch::kDwarfReturnAddress, step.caller_pc);
    return step;
}

Step FullFrame::slow(FrameAddress frame) {
    const CfiRow* row = source_.row(frame);
    return row != nullptr ? apply(*row, frame) : Step::stop(StackEnd::bad_rule);
}

std::optional<std::uint64_t> FullFrame::cfa_of(const CfiRow& row) {
    if (row.cfa_register) {
        const auto base = registers_.get(*row.cfa_register);
        return base ? std::optional(*base + static_cast<std::uint64_t>(row.cfa_offset))
                    : std::nullopt;
    }
    return evaluate(row.cfa_expression, {registers_, stack_, std::nullopt, false});
}

bool FullFrame::restore(unsigned number, const RegisterRule& rule, std::uint64_t cfa,
                        RegisterFile* caller, StackEnd* reason) {
    using Kind = RegisterRule::Kind;
    std::optional<std::uint64_t> value;
    switch (rule.kind) {
    case Kind::undefined:
        // libdw says so for registers that the table does not mention, too. As libgcc's unwinder
        // does (uw_update_context_1), keep what there is.
    case Kind::same_value:
        return true;
    case Kind::val_offset:
        caller->set(number, cfa + static_cast<std::uint64_t>(rule.offset));
        return true;
    case Kind::offset:
        value = stack_.stack_word(RemoteAddr(cfa) + rule.offset);
        *reason = StackEnd::bad_memory;
        break;
    case Kind::expression:
        *reason = StackEnd::bad_rule;
        value = evaluate(rule.expression, {registers_, stack_, cfa, true});
        if (value) {
            *reason = StackEnd::bad_memory;
            value = stack_.word(RemoteAddr(*value));
        }
        break;
    case Kind::val_expression:
        *reason = StackEnd::bad_rule;
        value = evaluate(rule.expression, {registers_, stack_, cfa, true});
        break;
    }
    if (!value) {
        return false;
    }
    caller->set(number, *value);
    return true;
}

Step FullFrame::apply(const CfiRow& row, FrameAddress frame) {
    const RegisterRule::Kind ra_kind = row.registers[arch::kDwarfReturnAddress].kind;
    if (ra_kind == RegisterRule::Kind::undefined) {
        return Step::stop(StackEnd::outermost);
    }
    if constexpr (!arch::kHasLinkRegister) {
        registers_.set(arch::kDwarfReturnAddress, frame.pc().value()); // as expressions may ask for
    } else if (ra_kind == RegisterRule::Kind::same_value && frame.is_return_address()) {
        return Step::stop(StackEnd::bad_rule); // it has called, and so lost it
    }
    const auto cfa = cfa_of(row);
    if (!cfa) {
        return Step::stop(depends_on_vector_length(row) ? StackEnd::vector_length
                                                        : StackEnd::bad_rule);
    }
    // A signal handler may run on another stack than its caller, and so may what has a frame
    // pointer (FastFrame::regular). At the last instruction of a function, the return address may
    // be in a register and sp the caller's already.
    const bool outwards = *cfa > sp() || (*cfa == sp() && !frame.is_return_address());
    if (!outwards && !row.signal_frame &&
        (row.cfa_register == arch::kDwarfStackPointer ||
         !stack_.is_other_stack(RemoteAddr(*cfa), RemoteAddr(sp())))) {
        return Step::stop(StackEnd::not_increasing);
    }
    RegisterFile caller = registers_;
    caller.set(arch::kDwarfStackPointer, *cfa);
    for (unsigned i = 0; i < arch::kDwarfRegisterCount; ++i) {
        StackEnd reason = StackEnd::bad_rule;
        if (restore(i, row.registers[i], *cfa, &caller, &reason)) {
            continue;
        }
        if (i == arch::kDwarfReturnAddress || i == arch::kDwarfStackPointer) {
            return Step::stop(reason);
        }
        caller.forget(i); // matters only if a frame further out needs it
    }
    registers_ = caller;
    const auto ra = registers_.get(arch::kDwarfReturnAddress);
    if (!ra) {
        return Step::stop(StackEnd::bad_rule);
    }
    return Step::to(row.signal_frame ? Step::Kind::interrupted : Step::Kind::called, *ra);
}

} // namespace memleax
