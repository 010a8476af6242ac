// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/unwind/rule.hpp"

#include <limits>
#include <optional>

#include <dwarf.h>

#include "arch.hpp"

namespace memleax {

namespace {

constexpr bool fits(std::int64_t offset) {
    return offset >= std::numeric_limits<std::int32_t>::min() &&
           offset <= std::numeric_limits<std::int32_t>::max();
}

/// The n of "fp + n", if that is what the operation pushes.
std::optional<std::int32_t> fp_relative(const DwarfOp& op) {
    std::uint64_t offset = 0;
    if (op.opcode == DW_OP_breg0 + arch::kDwarfFramePointer) {
        offset = op.operand1;
    } else if (op.opcode == DW_OP_bregx && op.operand1 == arch::kDwarfFramePointer) {
        offset = op.operand2;
    } else {
        return std::nullopt;
    }
    const auto value = static_cast<std::int64_t>(offset);
    return fits(value) ? std::optional(static_cast<std::int32_t>(value)) : std::nullopt;
}

bool set_cfa(const CfiRow& row, Rule* rule) {
    if (row.cfa_register) {
        if (!fits(row.cfa_offset)) {
            return false;
        }
        rule->cfa_offset = static_cast<std::int32_t>(row.cfa_offset);
        if (*row.cfa_register == arch::kDwarfStackPointer) {
            rule->cfa_base = Rule::CfaBase::sp;
            return true;
        }
        rule->cfa_base = Rule::CfaBase::fp;
        return *row.cfa_register == arch::kDwarfFramePointer;
    }
    // GCC realigns a stack so: the CFA of old is saved in the frame.
    if (row.cfa_expression.size() == 2 && row.cfa_expression[1].opcode == DW_OP_deref) {
        if (const auto offset = fp_relative(row.cfa_expression[0])) {
            rule->cfa_base = Rule::CfaBase::at_fp;
            rule->cfa_offset = *offset;
            return true;
        }
    }
    return false;
}

bool set_fp(const RegisterRule& fp, Rule* rule) {
    switch (fp.kind) {
    case RegisterRule::Kind::undefined: // libgcc's unwinder keeps the value, too
    case RegisterRule::Kind::same_value:
        rule->fp_place = Rule::FpPlace::unchanged;
        return true;
    case RegisterRule::Kind::offset:
        rule->fp_place = Rule::FpPlace::at_cfa;
        rule->fp_offset = static_cast<std::int32_t>(fp.offset);
        return fits(fp.offset);
    case RegisterRule::Kind::expression:
        if (fp.expression.size() == 1) {
            if (const auto offset = fp_relative(fp.expression[0])) {
                rule->fp_place = Rule::FpPlace::at_fp;
                rule->fp_offset = *offset;
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

bool set_ra(const RegisterRule& ra, Rule* rule) {
    if (arch::kHasLinkRegister && ra.kind == RegisterRule::Kind::same_value) {
        rule->ra_place = Rule::RaPlace::in_register;
        return true;
    }
    rule->ra_offset = static_cast<std::int32_t>(ra.offset);
    return ra.kind == RegisterRule::Kind::offset && fits(ra.offset);
}

/// The caller's sp is the CFA, unless the row says otherwise.
bool sp_is_cfa(const RegisterRule& sp) {
    return sp.kind == RegisterRule::Kind::undefined || sp.kind == RegisterRule::Kind::same_value ||
           (sp.kind == RegisterRule::Kind::val_offset && sp.offset == 0);
}

} // namespace

Rule rule_by_frame_pointer(Rule::Kind kind) {
    constexpr std::int32_t kReturnAddressAt = 8; // from fp
    Rule rule = Rule::of(kind);
    rule.cfa_base = Rule::CfaBase::fp;
    rule.cfa_offset = arch::kFramePointerCfaOffset;
    rule.fp_place = Rule::FpPlace::at_fp;
    rule.ra_offset = kReturnAddressAt - arch::kFramePointerCfaOffset;
    return rule;
}

Rule rule_from_row(const CfiRow& row) {
    const RegisterRule& ra = row.registers[arch::kDwarfReturnAddress];
    if (ra.kind == RegisterRule::Kind::undefined) {
        return Rule::of(Rule::Kind::outermost);
    }
    Rule rule = Rule::of(Rule::Kind::regular);
    if (row.signal_frame || !set_cfa(row, &rule) ||
        !set_fp(row.registers[arch::kDwarfFramePointer], &rule) ||
        !sp_is_cfa(row.registers[arch::kDwarfStackPointer]) || !set_ra(ra, &rule)) {
        return Rule::of(Rule::Kind::slow);
    }
    return rule;
}

} // namespace memleax
